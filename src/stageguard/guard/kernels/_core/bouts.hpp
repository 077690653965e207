// Viterbi for minimum bouts and a transition matrix, under one transition weight or under four at once: O(T K^2) time, O(T K) memory.
//
// In the symbols of docs/method.md, the best night y of T epochs maximises
//
//     Σ_t E[t, y_t] + τ Σ_changes A[y_(t-1), y_t] + τ Σ_stays S[y_t],    every complete bout of stage s lasting at least m_s epochs.
//
// For each stage s, two kinds of paths end at epoch t: V[t, s] is the best whose bout has reached m_s epochs and may end, and
// Y[t, s, d] the best whose bout is d < m_s epochs old and may not.
//
//     B[t, s]    = max_(r ≠ s) V[t-1, r] + τ A[r, s]                        a bout of s begins
//     V[t, s]    = E[t, s] + max(V[t-1, s] + τ S[s], F[t, s])               it goes on, or has just matured:
//                  F[t, s] = B[t, s] if m_s = 1, else Y[t-1, s, m_s - 1] + τ S[s]
//     Y[t, s, 1] = E[t, s] + B[t, s],   Y[t, s, d] = E[t, s] + Y[t-1, s, d-1] + τ S[s]
//
// The last bout may be cut by the recording's end: the best of all V[T, s] and Y[T, s, d] wins. The first is V[1, s] = E[1, s] if
// the start may have cut it too (`censored`), else one epoch old. Ties: stay, then the earlier stage, then the older bout.
//
// `A` says whether these are sums of logarithms or products of probabilities; `best` is the one place where a sum over all paths
// would differ. Lane by lane the operations are the same in the same order, so that any number of lanes gives the same bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "algebra.hpp"
#include "pack.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// Products are rescaled every few epochs, which is enough: the caller admits only tables whose worst epochs cannot underflow in between.
constexpr int kRescaleEvery = 8;

// What a forward pass leaves behind, and the best path of each lane: the same code for every M.
template <int K, class P, class A>
class BoutPath {
  protected:
    static constexpr int L = P::kStride;

    BoutPath(const BoutRules* rules, Workspace& work, int m) : rules_(rules), work_(work), m_(m) {
        for (int s = 0; s < K; ++s) entry_[s] = m - rules[0].minimum[s];
    }

    double change_of(int r, int s, int lane) const { return r == s ? A::impossible : rules_[lane].change[r * K + s]; }

    // `labels` may be null where only the counts are asked for.
    STAGEGUARD_APART Outcome backtrace(int lane, std::int64_t n_epochs, std::int8_t* labels) const {
        Outcome found{kImpossibleScore};
        double best = A::impossible;
        int s = -1;
        std::int64_t start = -1;
        const double* v = mature_ + (n_epochs - 1) * K * L + lane;
        for (int stage = 0; stage < K; ++stage) {
            if (v[stage * L] > best) best = v[stage * L], s = stage, start = -1;
            for (int slot = m_ - 2; slot >= entry_[stage]; --slot)  // the end may cut the last bout short
                if (young_[stage][slot][lane] > best) {
                    best = young_[stage][slot][lane];
                    s = stage;
                    start = n_epochs - 1 - (slot - entry_[stage]);
                }
        }
        if (s < 0) return found;
        std::int64_t end = n_epochs - 1;
        if (start < 0) start = bout_start(lane, end, s);
        for (;;) {
            if (labels) std::memset(labels + start, s, static_cast<std::size_t>(end - start + 1));
            found.counts[s] += end - start + 1;
            if (start == 0) break;
            end = start - 1;
            s = came_from(lane, end, s);
            start = bout_start(lane, end, s);
            ++found.switches;
        }
        found.score = A::log_score(best, exponent_[lane]);
        return found;
    }

    const BoutRules* rules_;  // of each lane; they differ in `stay` and `change` alone
    Workspace& work_;
    const int m_;
    std::uint32_t* stayed_ = nullptr;  // (T,) bit L * s + lane: the mature bout of s at t was mature at t-1 already
    double* mature_ = nullptr;         // (T, K, L) V
    double young_[K][kLongestMinimum][L];  // Y of the last epoch, [stage][slot]
    int entry_[K];                         // the slot in which a bout of this stage is one epoch old
    std::int64_t exponent_[L] = {};

  private:
    // Where the mature bout of s that is running at t began.
    std::int64_t bout_start(int lane, std::int64_t t, int s) const {
        const std::uint32_t bit = 1u << (L * s + lane);
        while (t > 0 && (stayed_[t] & bit)) --t;
        const std::int64_t start = t - rules_[0].minimum[s] + 1;
        return start > 0 ? start : 0;
    }

    // Bouts begin seldom, so which stage was left is worked out again here instead of being stored for every epoch.
    int came_from(int lane, std::int64_t t, int s) const {
        const double* v = mature_ + t * K * L + lane;
        int from = s == 0 ? 1 : 0;
        double best = A::combine(v[from * L], change_of(from, s, lane));
        for (int r = from + 1; r < K; ++r) {
            const double candidate = A::combine(v[r * L], change_of(r, s, lane));
            if (r != s && candidate > best) best = candidate, from = r;
        }
        return from;
    }
};

// K stages; every minimum is at most M epochs; P holds a number per transition weight.
//
// A bout too young to end waits in a register of M-1 slots that moves on by one slot an epoch. A stage with a shorter minimum
// enters further along, so that every bout leaves from the last slot in the epoch in which it matures.
template <int K, int M, class P, class A>
class BoutViterbi : BoutPath<K, P, A> {
    static constexpr int kLast = M - 1;               // entering "slot" M-1 means: mature at once
    static constexpr int kSlots = M > 1 ? M - 1 : 1;  // never an array of none
    using Path = BoutPath<K, P, A>;
    using Path::L, Path::rules_, Path::work_, Path::stayed_, Path::mature_, Path::young_, Path::entry_, Path::exponent_;

  public:
    BoutViterbi(const BoutRules* rules, Workspace& work) : Path(rules, work, M) {}

    void run(const double* rows, std::int64_t n_epochs, std::int8_t* labels, Outcome* outcomes) {
        stayed_ = work_.stayed.need(n_epochs);
        mature_ = work_.scores.need(n_epochs * K * L);
        forward(rows, n_epochs);
        for (int lane = 0; lane < L; ++lane)
            outcomes[lane] = failed_[lane] ? Outcome{kImpossibleScore} : Path::backtrace(lane, n_epochs, labels);
    }

  private:
    void forward(const double* rows, std::int64_t n_epochs) {
        const BoutRules& rule = rules_[0];
        P change[K][K], stay[K], v[K], young[K][kSlots], e[K];
        const P impossible = P::all(A::impossible);
        for (int s = 0; s < K; ++s) {
            double each[L];
            for (int lane = 0; lane < L; ++lane) each[lane] = rules_[lane].stay[s];
            stay[s] = P::load(each);
            for (int r = 0; r < K; ++r) {
                for (int lane = 0; lane < L; ++lane) each[lane] = Path::change_of(r, s, lane);
                change[r][s] = P::load(each);
            }
        }
        read(rows, 0, e);
        for (int s = 0; s < K; ++s) {
            v[s] = rule.censored || entry_[s] == kLast ? e[s] : impossible;
            for (int slot = 0; slot < kSlots; ++slot)
                young[s][slot] = !rule.censored && M > 1 && entry_[s] == slot ? e[s] : impossible;
            v[s].store(mature_ + s * L);
        }
        stayed_[0] = 0;
        for (std::int64_t t = 1; t < n_epochs; ++t) {
            read(rows, t, e);
            P begin[K];  // B
            STAGEGUARD_UNROLL
            for (int s = 0; s < K; ++s) {
                begin[s] = A::combine(v[s == 0 ? 1 : 0], change[s == 0 ? 1 : 0][s]);
                STAGEGUARD_UNROLL
                for (int r = s == 0 ? 2 : 1; r < K; ++r)
                    if (r != s) begin[s] = larger(A::combine(v[r], change[r][s]), begin[s]);
            }
            std::uint32_t bits = 0;
            STAGEGUARD_UNROLL
            for (int s = 0; s < K; ++s) {
                const P old = A::combine(v[s], stay[s]);
                P fresh = begin[s];  // F
                if constexpr (M > 1)
                    if (entry_[s] != kLast) fresh = A::combine(young[s][kLast - 1], stay[s]);
                bits |= static_cast<std::uint32_t>(at_least(old, fresh)) << (L * s);  // ties stay
                v[s] = A::combine(larger(old, fresh), e[s]);
                if constexpr (M > 1) {
                    STAGEGUARD_UNROLL
                    for (int slot = kLast - 1; slot > 0; --slot)
                        young[s][slot] = A::combine(entry_[s] == slot ? begin[s] : A::combine(young[s][slot - 1], stay[s]), e[s]);
                    young[s][0] = A::combine(entry_[s] == 0 ? begin[s] : impossible, e[s]);
                }
            }
            stayed_[t] = bits;
            if (A::rescales && t % kRescaleEvery == 0) rescale(v, young);
            double* row = mature_ + t * K * L;
            STAGEGUARD_UNROLL
            for (int s = 0; s < K; ++s) v[s].store(row + s * L);
        }
        for (int s = 0; s < K; ++s)
            for (int slot = 0; slot < kSlots; ++slot) young[s][slot].store(young_[s][slot]);
    }

    // The evidence of an epoch, the same in every lane. Probabilities are renormalised, clipped, weighted and timed, in this order.
    void read(const double* rows, std::int64_t t, P* e) const {
        const BoutRules& rule = rules_[0];
        const double* row = rows + t * K;
        if constexpr (A::rescales) {
            const double* clock = t < rule.n_timed ? rule.clock + t * K : nullptr;
            double total = row[0];
            STAGEGUARD_UNROLL
            for (int s = 1; s < K; ++s) total += row[s];
            const double inverse = 1.0 / total;
            STAGEGUARD_UNROLL
            for (int s = 0; s < K; ++s) {
                const double share = larger(row[s] * inverse, kClip) * rule.weight[s];
                e[s] = P::all(clock ? share * clock[s] : share);
            }
        } else {
            STAGEGUARD_UNROLL
            for (int s = 0; s < K; ++s) e[s] = P::all(row[s]);
        }
    }

    void rescale(P* v, P (*young)[kSlots]) {
        P most = v[0];
        STAGEGUARD_UNROLL
        for (int s = 0; s < K; ++s) {
            most = larger(most, v[s]);
            if constexpr (M > 1)
                STAGEGUARD_UNROLL
                for (int slot = 0; slot < kSlots; ++slot) most = larger(most, young[s][slot]);
        }
        double top[L], scale[L];
        most.store(top);
        for (int lane = 0; lane < L; ++lane) {
            failed_[lane] |= !(top[lane] > 0.0);
            scale[lane] = failed_[lane] ? 1.0 : unit_scale(top[lane], exponent_[lane]);
        }
        const P by = P::load(scale);
        STAGEGUARD_UNROLL
        for (int s = 0; s < K; ++s) {
            v[s] = v[s] * by;
            if constexpr (M > 1)
                STAGEGUARD_UNROLL
                for (int slot = 0; slot < kSlots; ++slot) young[s][slot] = young[s][slot] * by;
        }
    }

    bool failed_[L] = {};
};

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
