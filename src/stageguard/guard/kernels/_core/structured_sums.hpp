// Sums over all paths for minimum bouts and a transition matrix: their log-sum, stage marginals, and exact draws.
// O(T K^2) time, O(T K) memory.
//
// The recurrence is that of bouts.hpp with sums in place of maxima, on products: V[t, s] is the sum over all paths whose bout of s
// has reached m_s epochs, and Y[t, s, d] over those whose bout is d < m_s epochs old. With e, a and w the exponentials of E, τ A, τ S:
//
//     B[t, s] = Σ_(r ≠ s) V[t-1, r] a[r, s]                V[t, s] = e[t, s] (V[t-1, s] w[s] + F[t, s])
//
// The way back gives β[t, s], the sum over all that may follow a mature bout, and with it the probability that epoch t is in one:
// V[t, s] β[t, s] divided by the sum over all paths. Here a lane holds a stage, there a transition weight: hence two loops.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "algebra.hpp"
#include "draws.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// K stages; every minimum is at most M epochs; scores are products. As in bouts.hpp, a bout too young to end waits in a
// register of M-1 slots, on the way forth and on the way back.
//
// A young bout has no choice until it matures, so its probability is that of having begun: marginals need the mature
// scores of each epoch and the probability that a bout begins there, and young scores are never stored.
template <int K, int M>
class StructuredSums {
    using P = Pack<K>;
    static constexpr int kLast = M - 1;
    static constexpr int kSlots = M > 1 ? M - 1 : 1;
    static constexpr int kStride = P::kStride;
    static constexpr std::int64_t kEvery = 8;  // epochs between two rescalings
    using Mask = typename P::Mask;

  public:
    StructuredSums(const BoutRules& rules, Workspace& work) : rules_(rules), work_(work) {
        for (int s = 0; s < K; ++s) {
            entry_[s] = M - rules.minimum[s];
            for (int r = 0; r < K; ++r) change_[r][s] = r == s ? 0.0 : rules.change[r * K + s];
        }
    }

    // `marginals` (T, K)
    Sum smooth(const double* evidence, std::int64_t n_epochs, double* marginals) {
        if (!forward(evidence, n_epochs, nullptr)) return {kImpossibleScore, false};
        const bool certified = backward(evidence, n_epochs, marginals);
        return {log_sum(), certified};
    }

    // `labels` (n_draws, T); each draw has a stream of random numbers of its own
    Sum draw(const double* evidence, std::int64_t n_epochs, const std::uint64_t* streams, std::int64_t n_draws,
             std::int8_t* labels) {
        if (!forward(evidence, n_epochs, work_.stays.need(n_epochs * kStride))) return {kImpossibleScore, false};
        if (!backward(evidence, n_epochs, nullptr)) return {log_sum(), false};
        const BoutSums sums{rules_, K, M, kStride, work_.scores.data(), work_.stays.data(), change_[0], last_[0], total_};
        draw_bouts(sums, n_epochs, streams, n_draws, labels);
        return {log_sum(), true};
    }

  private:
    // This epoch's evidence. It is not divided by the row's sum, which would wait for a division: what the sums multiply to
    // is kept beside the scores.
    P row(const double* rows, std::int64_t t, P weight, double* sums) const {
        const P given = P::load(rows + t * K);
        const double sum = given.sum();
        if (sums) *sums *= sum;
        const P share = larger(given, P::all(rules_.clip * sum)) * weight;
        return t < rules_.n_timed ? share * P::load(rules_.clock + t * K) : share;
    }

    // `stays` (T, stride) is for draws, else null.
    STAGEGUARD_APART bool forward(const double* evidence, std::int64_t n_epochs, double* stays) {
        P change[K], young[kSlots];
        for (int r = 0; r < K; ++r) change[r] = P::load(change_[r]);
        const P stay = P::load(rules_.stay), weight = P::load(rules_.weight), none = P::all(0.0);
        const Mask at_once = enters(kLast);
        const std::array<Mask, kSlots> enters_at = enters_each(std::make_index_sequence<kSlots>{});
        double* mature = work_.scores.need(n_epochs * kStride);
        double* scales = work_.scales.need(n_epochs / kEvery + 1);
        double sums = 1.0;
        exponent_ = sums_exponent_ = 0;

        const P first = row(evidence, 0, weight, &sums);
        P v = rules_.censored ? first : choose<K>(at_once, first, none);
        for (int slot = 0; slot < kSlots; ++slot)
            young[slot] = rules_.censored || M == 1 ? none : choose<K>(enters_at[slot], first, none);
        v.store(mature);
        for (std::int64_t t = 1; t < n_epochs; ++t) {
            const P e = row(evidence, t, weight, &sums);
            const P enter = entering(v, mature + (t - 1) * kStride, change);
            const P old = v * stay;
            P fresh = enter;  // what matures now, before this epoch's evidence
            if constexpr (M > 1) fresh = choose<K>(at_once, enter, young[kLast - 1] * stay);
            const P both = old + fresh;
            if (stays) (old / both).store(stays + t * kStride);
            v = both * e;
            if constexpr (M > 1) {
                for (int slot = kLast - 1; slot > 0; --slot)
                    young[slot] = choose<K>(enters_at[slot], enter, young[slot - 1] * stay) * e;
                young[0] = choose<K>(enters_at[0], enter, none) * e;
            }
            if (t % kEvery == 0) {
                if (!rescale(v, young, scales + t / kEvery)) return false;
                sums *= unit_scale(sums, sums_exponent_);
            }
            v.store(mature + t * kStride);
        }
        log_sums_ = std::log(sums) + static_cast<double>(sums_exponent_) * kLog2;
        return end(v, young);
    }

    static P entering(P v, const double* stored, const P* change) {
        P enter = v.spread(0, stored) * change[0];
        for (int r = 1; r < K; ++r) enter = enter + v.spread(r, stored) * change[r];
        return enter;
    }

    // Keeps the last epoch's scores and adds them up: any state may be the last.
    bool end(P v, const P* young) {
        alignas(32) double lanes[kStride];
        v.store(lanes);
        total_ = 0.0;
        for (int s = 0; s < K; ++s) total_ += last_[s][0] = lanes[s];
        for (int slot = kLast - 1; slot >= 0; --slot) {
            young[slot].store(lanes);
            for (int s = 0; s < K; ++s) total_ += last_[s][kLast - slot] = lanes[s];
        }
        return total_ > 0.0;
    }

    bool rescale(P& v, P* young, double* kept) {
        P most = v;
        if constexpr (M > 1)
            for (int slot = 0; slot < kSlots; ++slot) most = larger(most, young[slot]);
        const double top = most.top();
        if (!(top > 0.0)) return false;
        *kept = unit_scale(top, exponent_);
        const P scale = P::all(*kept);
        v = v * scale;
        if constexpr (M > 1)
            for (int slot = 0; slot < kSlots; ++slot) young[slot] = young[slot] * scale;
        return true;
    }

    double log_sum() const { return std::log(total_) + static_cast<double>(exponent_) * kLog2 - log_sums_; }

    // True if the sums are right. Going forth, a product below the smallest double is lost, and with it at most 1e-320 of a
    // score; what that would have come to is what lies beyond it, which the way back tells. `marginals` may be null.
    STAGEGUARD_APART bool backward(const double* evidence, std::int64_t n_epochs, double* marginals) {
        P change[K], back[K], young[kSlots], late[kSlots], pending[kSlots];
        for (int r = 0; r < K; ++r) {
            double column[K];
            for (int s = 0; s < K; ++s) column[s] = change_[s][r];
            change[r] = P::load(change_[r]);
            back[r] = P::load(column);
        }
        const P stay = P::load(rules_.stay), weight = P::load(rules_.weight);
        const Mask at_once = enters(kLast);
        const std::array<Mask, kSlots> enters_at = enters_each(std::make_index_sequence<kSlots>{});
        const std::array<Mask, kSlots> still_young = young_each(std::make_index_sequence<kSlots>{});
        const double* mature = work_.scores.data();
        const double* scales = work_.scales.data();
        alignas(32) double lanes[kStride];

        // What follows a state, divided by the sum over all paths: times the state's score it is a probability.
        P after = P::all(1.0 / total_), most = after;
        for (int slot = 0; slot < kSlots; ++slot) young[slot] = after, pending[slot] = P::all(0.0);
        double farthest = 0.0;
        for (std::int64_t t = n_epochs - 1;; --t) {
            P e = row(evidence, t, weight, nullptr);
            if (t % kEvery == 0 && t > 0) e = e * P::all(scales[t / kEvery]);
            const P now = e * after;  // this epoch and what follows it, in a bout that is mature
            P begun = now;            // the same in a bout that begins here
            if constexpr (M > 1) {
                for (int slot = 0; slot < kSlots; ++slot) late[slot] = e * young[slot];
                begun = late[0];
                for (int slot = 1; slot < kSlots; ++slot) begun = choose<K>(enters_at[slot], late[slot], begun);
                begun = choose<K>(at_once, now, begun);
            }
            if (marginals) {
                const P here = P::load(mature + t * kStride) * after;
                if constexpr (M == 1) {
                    farthest = larger(emit(here, marginals + t * K), farthest);
                } else {
                    for (int i = kSlots - 1; i > 0; --i) pending[i] = pending[i - 1];
                    pending[0] = here;
                    const P beginning = begins(t, mature, change) * begun;
                    for (int i = 0; i < kSlots; ++i)
                        pending[i] = pending[i] + choose<K>(still_young[i], beginning, P::all(0.0));
                    const std::int64_t done = t + kSlots - 1;
                    if (done < n_epochs) farthest = larger(emit(pending[kSlots - 1], marginals + done * K), farthest);
                }
            }
            if (t == 0) break;
            begun.store(lanes);
            P before = now * stay;
            for (int r = 0; r < K; ++r) before = before + begun.spread(r, lanes) * back[r];
            after = before;
            most = larger(after, most);
            if constexpr (M > 1) {
                for (int slot = 0; slot < kLast - 1; ++slot) young[slot] = late[slot + 1] * stay;
                young[kLast - 1] = now * stay;
                for (int slot = 0; slot < kSlots; ++slot) most = larger(young[slot], most);
            }
        }
        if (marginals)
            for (int i = kSlots - 2; i >= 0; --i)  // the first epochs wait for nothing more
                if (i < n_epochs) farthest = larger(emit(pending[i], marginals + i * K), farthest);
        // What overflows is multiplied by the 0 of leaving a stage for itself and is no number from then on.
        return most.top() < kMostBeyond && farthest < kMostDrift && !std::isnan(after.sum());
    }

    // Scores of the bouts that begin at t, before its evidence.
    P begins(std::int64_t t, const double* mature, const P* change) const {
        if (t == 0) return P::all(rules_.censored ? 0.0 : 1.0);
        const double* stored = mature + (t - 1) * kStride;
        return entering(P::load(stored), stored, change);
    }

    // Writes one epoch's marginals; returns how far from 1 they summed, infinity if that is no number.
    static double emit(P row, double* marginals) {
        const double sum = row.sum();
        (row * P::all(1.0 / sum)).save(marginals);
        const double drift = std::fabs(sum - 1.0);
        return drift <= 1.0 ? drift : std::numeric_limits<double>::infinity();
    }

    // the stages whose bouts enter at this slot
    Mask enters(int slot) const {
        bool set[K];
        for (int s = 0; s < K; ++s) set[s] = entry_[s] == slot;
        return Mask(set);
    }
    template <std::size_t... Slot>
    std::array<Mask, sizeof...(Slot)> enters_each(std::index_sequence<Slot...>) const {
        return {enters(static_cast<int>(Slot))...};
    }
    // the stages whose bouts are too young to end so many epochs after they began
    Mask young_after(int epochs) const {
        bool set[K];
        for (int s = 0; s < K; ++s) set[s] = epochs < rules_.minimum[s] - 1;
        return Mask(set);
    }
    template <std::size_t... Epochs>
    std::array<Mask, sizeof...(Epochs)> young_each(std::index_sequence<Epochs...>) const {
        return {young_after(static_cast<int>(Epochs))...};
    }

    static constexpr double kLog2 = 0.6931471805599453;
    static constexpr double kMostBeyond = 1e280;  // times what underflow can lose, this is still nothing
    static constexpr double kMostDrift = 1e-6;    // rounding makes a millionth of this

    const BoutRules& rules_;
    Workspace& work_;
    double change_[K][K];
    double last_[K][M];  // [s][0] mature, [s][i] young in slot M-1-i
    double total_ = 0.0, log_sums_ = 0.0;
    int entry_[K];
    std::int64_t exponent_ = 0, sums_exponent_ = 0;
};

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
