// Viterbi for minimum bouts and a transition matrix: O(T K^2) time, O(T K) memory.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "algebra.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// Rescaling every few epochs is enough: the caller admits only tables whose worst epochs cannot underflow in between.
constexpr int kRescaleEvery = 8;

// What a forward pass of `Structured` leaves behind, and the best path through it: the same code for every M.
template <int K, class A>
class StructuredPath {
  protected:
    static constexpr int kStride = Pack<K>::kStride;

    StructuredPath(const BoutRules& rules, Workspace& work, int m) : rules_(rules), work_(work), m_(m) {
        for (int s = 0; s < K; ++s) {
            entry_[s] = m - rules.minimum[s];
            for (int r = 0; r < K; ++r) change_[r][s] = r == s ? A::impossible : rules.change[r * K + s];
        }
    }

    STAGEGUARD_APART Outcome backtrace(std::int64_t n_epochs, std::int8_t* labels) const {
        double best = A::impossible;
        int s = -1;
        std::int64_t start = -1;
        const double* v = work_.scores.data() + (n_epochs - 1) * kStride;
        for (int stage = 0; stage < K; ++stage) {
            if (v[stage] > best) {
                best = v[stage];
                s = stage;
                start = -1;
            }
            for (int slot = m_ - 2; slot >= entry_[stage]; --slot)  // the end may cut the last bout short
                if (young_[slot][stage] > best) {
                    best = young_[slot][stage];
                    s = stage;
                    start = n_epochs - 1 - (slot - entry_[stage]);
                }
        }
        if (s < 0) return {kImpossibleScore, 0};
        std::int64_t end = n_epochs - 1, switches = 0;
        if (start < 0) start = bout_start(end, s);
        for (;;) {
            std::memset(labels + start, s, static_cast<std::size_t>(end - start + 1));
            if (start == 0) break;
            end = start - 1;
            s = came_from(end, s);
            start = bout_start(end, s);
            ++switches;
        }
        return {A::log_score(best, exponent_), switches};
    }

    const BoutRules& rules_;
    Workspace& work_;
    const int m_;
    double change_[K][K];
    double young_[kLongestMinimum][K];  // [slot]
    int entry_[K];  // the slot in which a bout of this stage is one epoch old
    std::int64_t exponent_ = 0;

  private:
    // Where the mature bout of s that is running at t began.
    std::int64_t bout_start(std::int64_t t, int s) const {
        const std::uint8_t* stayed = work_.stayed.data();
        const unsigned bit = 1u << s;
        while (t > 0 && (stayed[t] & bit)) --t;
        const std::int64_t start = t - rules_.minimum[s] + 1;
        return start > 0 ? start : 0;
    }

    // Entries are rare, so which stage was left is worked out again here instead of being stored for every epoch.
    int came_from(std::int64_t t, int s) const {
        const double* v = work_.scores.data() + t * kStride;
        int from = s == 0 ? 1 : 0;
        double best = A::combine(v[from], change_[from][s]);
        for (int r = from + 1; r < K; ++r) {
            const double candidate = A::combine(v[r], change_[r][s]);
            if (r != s && candidate > best) {
                best = candidate;
                from = r;
            }
        }
        return from;
    }
};

// K stages; every minimum is at most M epochs.
//
// A bout too young to end waits in a register of M-1 slots that moves on by one slot an epoch. A stage with a shorter
// minimum enters further along, so that every bout leaves from the last slot in the epoch in which it matures.
template <int K, int M, class A>
class Structured : StructuredPath<K, A> {
    static constexpr int kLast = M - 1;               // entering "slot" M-1 means: mature at once
    static constexpr int kSlots = M > 1 ? M - 1 : 1;  // never an array of none
    using Path = StructuredPath<K, A>;
    using Path::kStride, Path::rules_, Path::work_, Path::change_, Path::young_, Path::entry_, Path::exponent_;
    using Mask = typename Pack<K>::Mask;

  public:
    Structured(const BoutRules& rules, Workspace& work) : Path(rules, work, M) {}

    Outcome run(const double* evidence, std::int64_t n_epochs, std::int8_t* labels) {
        work_.stayed.need(n_epochs);
        work_.scores.need(n_epochs * kStride);
        if (!forward(evidence, n_epochs)) return {kImpossibleScore, 0};
        return Path::backtrace(n_epochs, labels);
    }

  private:
    bool forward(const double* evidence, std::int64_t n_epochs) {
        Pack<K> change[K], young[kSlots];
        const Pack<K> stay = Pack<K>::load(rules_.stay), weight = Pack<K>::load(rules_.weight);
        const Pack<K> impossible = Pack<K>::all(A::impossible);
        for (int r = 0; r < K; ++r) change[r] = Pack<K>::load(change_[r]);
        const Mask at_once = enters(kLast);
        const std::array<Mask, kSlots> enters_at = enters_each(std::make_index_sequence<kSlots>{});
        double* mature = work_.scores.data();
        std::uint8_t* stayed = work_.stayed.data();

        // The first epoch: a bout cut by the recording's start is as old as it needs to be.
        const Pack<K> first = timed(A::evidence(Pack<K>::load(evidence), weight), 0);
        Pack<K> v = rules_.censored ? first : choose<K>(at_once, first, impossible);
        for (int slot = 0; slot < kSlots; ++slot)
            young[slot] = rules_.censored || M == 1 ? impossible : choose<K>(enters_at[slot], first, impossible);
        v.store(mature);
        stayed[0] = 0;

        for (std::int64_t t = 1; t < n_epochs; ++t) {
            const Pack<K> e = timed(A::evidence(Pack<K>::load(evidence + t * K), weight), t);
            const double* before = mature + (t - 1) * kStride;
            Pack<K> enter = A::combine(v.spread(0, before), change[0]);
            for (int r = 1; r < K; ++r) enter = larger(A::combine(v.spread(r, before), change[r]), enter);
            const Pack<K> old = A::combine(v, stay);
            Pack<K> fresh = enter;  // what matures now, before this epoch's evidence
            if constexpr (M > 1) fresh = choose<K>(at_once, enter, A::combine(young[kLast - 1], stay));
            stayed[t] = static_cast<std::uint8_t>(at_least(old, fresh));  // ties stay
            v = A::combine(larger(old, fresh), e);
            if constexpr (M > 1) {
                for (int slot = kLast - 1; slot > 0; --slot)
                    young[slot] = A::combine(choose<K>(enters_at[slot], enter, A::combine(young[slot - 1], stay)), e);
                young[0] = A::combine(choose<K>(enters_at[0], enter, impossible), e);
            }
            if (A::rescales && t % kRescaleEvery == 0 && !rescale(v, young)) return false;
            v.store(mature + t * kStride);
        }
        alignas(32) double lanes[kStride];
        for (int slot = 0; slot < kSlots; ++slot) {
            young[slot].store(lanes);
            std::memcpy(young_[slot], lanes, K * sizeof(double));
        }
        return true;
    }

    // the evidence of an epoch with what the clock says
    Pack<K> timed(Pack<K> e, std::int64_t t) const {
        return t < rules_.n_timed ? A::combine(e, Pack<K>::load(rules_.clock + t * K)) : e;
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

    bool rescale(Pack<K>& v, Pack<K>* young) {
        Pack<K> most = v;
        if constexpr (M > 1)
            for (int slot = 0; slot < kSlots; ++slot) most = larger(most, young[slot]);
        const double top = most.top();
        if (!(top > 0.0)) return false;
        const Pack<K> scale = Pack<K>::all(unit_scale(top, exponent_));
        v = v * scale;
        if constexpr (M > 1)
            for (int slot = 0; slot < kSlots; ++slot) young[slot] = young[slot] * scale;
        return true;
    }
};

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
