// Sums over all paths for minimum bouts and a transition matrix: their log-sum, stage marginals, and exact draws.
// O(T K^2) time, O(T K) memory.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "algebra.hpp"
#include "random.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// K stages; every minimum is at most M epochs; scores in algebra A, one pack P an epoch. As in structured.hpp, a bout too
// young to end waits in a register of M-1 slots, on the way forth and on the way back.
//
// A young bout has no choice until it matures, so its probability is that of having begun: marginals need the mature
// scores of each epoch and the probability that a bout begins there, and young scores are never stored.
template <int K, int M, class A, class P>
class StructuredSums {
    static constexpr int kLast = M - 1;
    static constexpr int kSlots = M > 1 ? M - 1 : 1;
    static constexpr int kStride = P::kStride;
    static constexpr std::int64_t kEvery = 8;  // epochs between two rescalings
    using Mask = typename P::Mask;

  public:
    StructuredSums(const BoutRules& rules, Workspace& work) : rules_(rules), work_(work) {
        for (int s = 0; s < K; ++s) {
            entry_[s] = M - rules.minimum[s];
            for (int r = 0; r < K; ++r) change_[r][s] = r == s ? A::impossible : rules.change[r * K + s];
        }
    }

    // `marginals` (T, K)
    Sum smooth(const double* evidence, std::int64_t n_epochs, double* marginals) {
        if (!forward(evidence, n_epochs, nullptr)) return {kImpossibleScore, !A::rescales};
        const bool certified = backward(evidence, n_epochs, marginals);
        return {log_sum(), certified};
    }

    // `labels` (n_draws, T); each draw has a stream of random numbers of its own
    Sum draw(const double* evidence, std::int64_t n_epochs, const std::uint64_t* streams, std::int64_t n_draws,
             std::int8_t* labels) {
        if (!forward(evidence, n_epochs, work_.stays.need(n_epochs * kStride))) return {kImpossibleScore, !A::rescales};
        if (!backward(evidence, n_epochs, nullptr)) return {log_sum(), false};
        for (std::int64_t i = 0; i < n_draws; ++i) draw_one(n_epochs, Uniforms(streams[i]), labels + i * n_epochs);
        return {log_sum(), true};
    }

  private:
    // This epoch's evidence. Products are not divided by the row's sum, which would wait for a division: what the sums
    // multiply to is kept beside the scores.
    P row(const double* p, P weight, double* sums) const {
        const P given = P::load(p);
        if constexpr (!A::rescales) return given;
        const double sum = given.sum();
        if (sums) *sums *= sum;
        return larger(given, P::all(rules_.clip * sum)) * weight;
    }

    // `stays` (T, stride) is for draws, else null.
    bool forward(const double* evidence, std::int64_t n_epochs, double* stays) {
        P change[K], young[kSlots];
        for (int r = 0; r < K; ++r) change[r] = P::load(change_[r]);
        const P stay = P::load(rules_.stay), weight = P::load(rules_.weight), impossible = P::all(A::impossible);
        const Mask at_once = enters(kLast);
        const std::array<Mask, kSlots> enters_at = enters_each(std::make_index_sequence<kSlots>{});
        double* mature = work_.scores.need(n_epochs * kStride);
        double* scales = work_.scales.need(n_epochs / kEvery + 1);
        double sums = 1.0;
        exponent_ = sums_exponent_ = 0;

        const P first = row(evidence, weight, &sums);
        P v = rules_.censored ? first : choose<K>(at_once, first, impossible);
        for (int slot = 0; slot < kSlots; ++slot)
            young[slot] = rules_.censored || M == 1 ? impossible : choose<K>(enters_at[slot], first, impossible);
        v.store(mature);
        for (std::int64_t t = 1; t < n_epochs; ++t) {
            const P e = row(evidence + t * K, weight, &sums);
            const P enter = entering(v, mature + (t - 1) * kStride, change);
            const P old = A::combine(v, stay);
            P fresh = enter;  // what matures now, before this epoch's evidence
            if constexpr (M > 1) fresh = choose<K>(at_once, enter, A::combine(young[kLast - 1], stay));
            const P both = A::add(old, fresh);
            if (stays) A::share(old, both).store(stays + t * kStride);
            v = A::combine(both, e);
            if constexpr (M > 1) {
                for (int slot = kLast - 1; slot > 0; --slot)
                    young[slot] = A::combine(choose<K>(enters_at[slot], enter, A::combine(young[slot - 1], stay)), e);
                young[0] = A::combine(choose<K>(enters_at[0], enter, impossible), e);
            }
            if (A::rescales && t % kEvery == 0) {
                if (!rescale(v, young, scales + t / kEvery)) return false;
                sums *= unit_scale(sums, sums_exponent_);
            }
            v.store(mature + t * kStride);
        }
        log_sums_ = std::log(sums) + static_cast<double>(sums_exponent_) * kLog2;
        return end(v, young);
    }

    static P entering(P v, const double* stored, const P* change) {
        P enter = A::combine(v.spread(0, stored), change[0]);
        for (int r = 1; r < K; ++r) enter = A::add(enter, A::combine(v.spread(r, stored), change[r]));
        return enter;
    }

    // Keeps the last epoch's scores and adds them up: any state may be the last.
    bool end(P v, const P* young) {
        alignas(32) double lanes[kStride];
        v.store(lanes);
        total_ = A::impossible;
        for (int s = 0; s < K; ++s) total_ = A::add(total_, last_[s][0] = lanes[s]);
        for (int slot = kLast - 1; slot >= 0; --slot) {
            young[slot].store(lanes);
            for (int s = 0; s < K; ++s) total_ = A::add(total_, last_[s][kLast - slot] = lanes[s]);
        }
        return total_ > A::impossible;
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

    double log_sum() const {
        if constexpr (!A::rescales) return total_;
        return std::log(total_) + static_cast<double>(exponent_) * kLog2 - log_sums_;
    }

    // True if the sums are right. Going forth, a product below the smallest double is lost, and with it at most 1e-320 of a
    // score; what that would have come to is what lies beyond it, which the way back tells. `marginals` may be null.
    bool backward(const double* evidence, std::int64_t n_epochs, double* marginals) {
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
        P after = P::all(A::inverse(total_)), most = after;
        for (int slot = 0; slot < kSlots; ++slot) young[slot] = after, pending[slot] = P::all(0.0);
        double farthest = 0.0;
        for (std::int64_t t = n_epochs - 1;; --t) {
            P e = row(evidence + t * K, weight, nullptr);
            if (A::rescales && t % kEvery == 0 && t > 0) e = e * P::all(scales[t / kEvery]);
            const P now = A::combine(e, after);  // this epoch and what follows it, in a bout that is mature
            P begun = now;                       // the same in a bout that begins here
            if constexpr (M > 1) {
                for (int slot = 0; slot < kSlots; ++slot) late[slot] = A::combine(e, young[slot]);
                begun = late[0];
                for (int slot = 1; slot < kSlots; ++slot) begun = choose<K>(enters_at[slot], late[slot], begun);
                begun = choose<K>(at_once, now, begun);
            }
            if (marginals) {
                const P here = A::probability(A::combine(P::load(mature + t * kStride), after));
                if constexpr (M == 1) {
                    farthest = larger(emit(here, marginals + t * K), farthest);
                } else {
                    for (int i = kSlots - 1; i > 0; --i) pending[i] = pending[i - 1];
                    pending[0] = here;
                    const P beginning = A::probability(A::combine(begins(t, mature, change), begun));
                    for (int i = 0; i < kSlots; ++i)
                        pending[i] = pending[i] + choose<K>(still_young[i], beginning, P::all(0.0));
                    const std::int64_t done = t + kSlots - 1;
                    if (done < n_epochs) farthest = larger(emit(pending[kSlots - 1], marginals + done * K), farthest);
                }
            }
            if (t == 0) break;
            begun.store(lanes);
            P before = A::combine(now, stay);
            for (int r = 0; r < K; ++r) before = A::add(before, A::combine(begun.spread(r, lanes), back[r]));
            after = before;
            most = larger(after, most);
            if constexpr (M > 1) {
                for (int slot = 0; slot < kLast - 1; ++slot) young[slot] = A::combine(late[slot + 1], stay);
                young[kLast - 1] = A::combine(now, stay);
                for (int slot = 0; slot < kSlots; ++slot) most = larger(young[slot], most);
            }
        }
        if (marginals)
            for (int i = kSlots - 2; i >= 0; --i)  // the first epochs wait for nothing more
                if (i < n_epochs) farthest = larger(emit(pending[i], marginals + i * K), farthest);
        if constexpr (!A::rescales) return true;
        // What overflows is multiplied by the 0 of leaving a stage for itself and is no number from then on.
        return most.top() < kMostBeyond && farthest < kMostDrift && !std::isnan(after.sum());
    }

    // Scores of the bouts that begin at t, before its evidence.
    P begins(std::int64_t t, const double* mature, const P* change) const {
        if (t == 0) return P::all(rules_.censored ? A::impossible : A::certain);
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

    void draw_one(std::int64_t n_epochs, Uniforms uniforms, std::int8_t* labels) const {
        const double* mature = work_.scores.data();
        const double* stays = work_.stays.data();
        int s = 0, age = 0;  // age 0 is mature
        draw_last(uniforms, s, age);
        std::int64_t t = n_epochs - 1;
        if (age > 0) {
            const std::int64_t start = n_epochs - age;
            for (; t >= start; --t) labels[t] = static_cast<std::int8_t>(s);
            if (start == 0) return;
            s = draw_origin(mature + t * kStride, s, uniforms.next());
        }
        for (;;) {
            // One number decides how far back a mature bout reaches: it goes on while the chance of that lies above it.
            const double u = uniforms.next();
            double chance = 1.0;
            for (; t > 0; --t) {
                chance *= stays[t * kStride + s];
                if (!(u < chance)) break;
                labels[t] = static_cast<std::int8_t>(s);
            }
            const std::int64_t start = t > 0 ? t - rules_.minimum[s] + 1 : 0;
            for (; t >= start; --t) labels[t] = static_cast<std::int8_t>(s);
            if (start <= 0) return;
            s = draw_origin(mature + t * kStride, s, uniforms.next());
        }
    }

    // The state of the last epoch: stage by stage, the oldest bout first.
    void draw_last(Uniforms& uniforms, int& stage, int& age) const {
        const double aim = uniforms.next();
        double reached = 0.0;
        for (int s = 0; s < K; ++s)
            for (int i = 0; i <= rules_.minimum[s] - 1; ++i) {
                const double chance = A::probability(A::combine(last_[s][i], A::inverse(total_)));
                if (!(chance > 0.0)) continue;
                stage = s;
                age = i == 0 ? 0 : rules_.minimum[s] - i;
                reached += chance;
                if (aim < reached) return;
            }
    }

    // The stage left by a bout of s that begins after the epoch with these scores.
    int draw_origin(const double* v, int s, double u) const {
        double ways[K], total = A::impossible;
        for (int r = 0; r < K; ++r) {
            ways[r] = A::combine(v[r], change_[r][s]);
            total = A::add(total, ways[r]);
        }
        double aim = u, reached = 0.0;
        if constexpr (A::rescales) aim *= total;
        int from = s == 0 ? 1 : 0;
        for (int r = 0; r < K; ++r) {
            const double chance = A::rescales ? ways[r] : A::probability(ways[r] - total);
            if (!(chance > 0.0)) continue;
            from = r;
            reached += chance;
            if (aim < reached) break;
        }
        return from;
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
