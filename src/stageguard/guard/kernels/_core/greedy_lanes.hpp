// The greedy pass where no survivor is kept apart beyond an age of four: windows and minimum bouts of up to five epochs, as in
// the paper. The young bouts of a stage lie in one register, a lane per age, oldest first. Lane by lane the operations of
// greedy.hpp, in its order, so that both give the same bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "algebra.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

constexpr int kAge = kMostStages;  // a survivor is named by its stage + kAge * its age, the age of merged ones being 0

// Writes the stages of the best path, bout by bout from its last one, which began at `start`; returns how often it switches.
// `origin` has, by epoch and stage, the survivor that a bout beginning there continues.
template <int K, typename MergedStart>
std::int64_t write_bouts(std::int8_t* labels, std::int64_t end, int s, std::int64_t start, const std::uint32_t* origin, MergedStart merged_start) {
    for (std::int64_t switches = 0;; ++switches) {
        std::memset(labels + start, s, static_cast<std::size_t>(end - start + 1));
        if (start == 0) return switches;
        const std::uint32_t survivor = origin[start * K + s];
        end = start - 1;
        s = static_cast<int>(survivor % kAge);
        start = survivor >= kAge ? end - survivor / kAge + 1 : merged_start(end, s);
    }
}

constexpr int kAges = 4;
constexpr int kGreedyRescaleEvery = 4;  // as in solver.py

#if defined(__AVX2__)
using Ages = AvxPack<kAges>;

template <int N>
inline double top_of(AvxPack<N> a) {  // all lanes count
    __m256d most = a.x[0];
    for (int i = 1; i < AvxPack<N>::kRegisters; ++i) most = _mm256_max_pd(most, a.x[i]);
    const __m128d half = _mm_max_pd(_mm256_castpd256_pd128(most), _mm256_extractf128_pd(most, 1));
    return _mm_cvtsd_f64(_mm_max_sd(half, _mm_unpackhi_pd(half, half)));
}

// Every bout an epoch older: lanes move down by one.
inline Ages older(Ages a) { return {{_mm256_permute4x64_pd(a.x[0], 0xf9)}}; }

// The first lane of each register, in the lanes of one pack; `none` beyond K.
template <int K>
inline AvxPack<AvxPack<K>::kStride> oldest_of(const Ages* young, double none) {
    AvxPack<AvxPack<K>::kStride> r;
    STAGEGUARD_UNROLL
    for (int i = 0; i < AvxPack<K>::kRegisters; ++i) {
        const __m256d empty = _mm256_set1_pd(none);
        const int s = 4 * i;
        const __m256d a = young[s].x[0], b = s + 1 < K ? young[s + 1].x[0] : empty;
        const __m256d c = s + 2 < K ? young[s + 2].x[0] : empty, d = s + 3 < K ? young[s + 3].x[0] : empty;
        r.x[i] = _mm256_permute2f128_pd(_mm256_unpacklo_pd(a, b), _mm256_unpacklo_pd(c, d), 0x20);
    }
    return r;
}
#else
using Ages = PlainPack<kAges>;

template <int N>
inline double top_of(PlainPack<N> a) {
    return a.top();
}

inline Ages older(Ages a) {
    for (int lane = 0; lane + 1 < kAges; ++lane) a.x[lane] = a.x[lane + 1];
    return a;
}

template <int K>
inline PlainPack<K> oldest_of(const Ages* young, double) {
    PlainPack<K> r;
    for (int s = 0; s < K; ++s) r.x[s] = young[s].x[0];
    return r;
}
#endif

inline int first_bit(unsigned bits) {
#if defined(__GNUC__)
    return __builtin_ctz(bits);
#else
    int i = 0;
    while (!(bits >> i & 1u)) ++i;
    return i;
#endif
}

template <int K, class A>
class GreedyLanes {
#if defined(__AVX2__)
    using P = AvxPack<K>;
    using Stages = AvxPack<P::kStride>;  // lanes beyond K hold what is impossible
#else
    using P = PlainPack<K>;
    using Stages = P;
#endif
    static constexpr int kStride = P::kStride;

  public:
    static bool takes(const BoutRules& rules, const FlipFlop& flip_flop) {
        const std::int64_t ages = depth(rules, flip_flop) - 1;
        return ages >= 1 && ages <= kAges;
    }

    // Beyond this age no other stage is left in the window, and bouts of a stage merge.
    static std::int64_t depth(const BoutRules& rules, const FlipFlop& flip_flop) {
        std::int64_t deepest = flip_flop.window_epochs;
        for (int s = 0; s < K; ++s) deepest = std::max<std::int64_t>(deepest, rules.minimum[s]);
        return deepest;
    }

    GreedyLanes(const BoutRules& rules, const FlipFlop& flip_flop)
        : rules_(rules), window_epochs_(flip_flop.window_epochs), depth_(static_cast<int>(depth(rules, flip_flop))), enters_(entry(depth_).set) {
        const double penalty = A::of_nats(-flip_flop.penalty_nats);
        for (int s = 0; s < K; ++s) {
            for (int r = 0; r < kStride; ++r) from_[s][r] = r < K && r != s ? rules.change[r * K + s] : A::impossible;
            for (int r = 0; r < K; ++r)
                for (int lane = 0; lane < kAges; ++lane) {
                    const bool may_leave = r != s && lane < depth_ - 1 && depth_ - 1 - lane >= rules.minimum[r];
                    const double change = may_leave ? rules.change[r * K + s] : A::impossible;
                    change_[r][s][lane] = change;
                    penalised_[r][s][lane] = A::combine(change, penalty);
                    last_seen_[r][s][lane] = kNever;
                }
        }
        std::fill_n(never_, K * kAges, kNever);
    }

    Outcome run(Workspace& work, const double* evidence, std::int64_t n_epochs, std::int8_t* labels) {
        origin_ = work.lanes.need(n_epochs * K);
        stayed_ = work.stayed.need(n_epochs);
        n_epochs_ = n_epochs;
        if (!forward(evidence)) return {kImpossibleScore, 0};
        return backtrace(labels);
    }

  private:
    static constexpr double kNever = -1e18;

    struct Entry {
        bool set[kAges];
    };
    static Entry entry(int depth) {
        Entry lanes{};
        lanes.set[depth - 2] = true;
        return lanes;
    }

    // The best score of each bout that begins at t goes to `best`; what its path saw last, to `last_seen_`.
    void enter_best(std::int64_t t, const Ages* young, Stages merged, double* best) {
        const Ages before_window = Ages::all(static_cast<double>(t - window_epochs_ - 1));
        double seen[K][K];  // [stage of the new bout][other stage]
        STAGEGUARD_UNROLL
        for (int s = 0; s < K; ++s) {
            Ages left[K], most = Ages::all(A::impossible);
            STAGEGUARD_UNROLL
            for (int from = 0; from < K; ++from) {
                if (from == s) continue;
                const Ages change = where_more(Ages::load(last_seen_[from][s]), before_window, Ages::load(penalised_[from][s]),
                                               Ages::load(change_[from][s]));
                left[from] = A::combine(young[from], change);
                most = larger(left[from], most);
            }
            const Stages of_merged = A::combine(merged, Stages::load(from_[s]));
            best[s] = larger(top_of(most), top_of(of_merged));
            // Ties go to the earlier stage, then to the older bout, a merged one (bit 0) being the oldest.
            const Ages top = Ages::all(best[s]);
            const unsigned merged_bits = at_least(of_merged, Stages::all(best[s]));
            unsigned bits = 1;
            int from = 0;
            STAGEGUARD_UNROLL
            for (int r = K - 1; r >= 0; --r) {
                if (r == s) continue;
                const unsigned found = (merged_bits >> r & 1u) | at_least(left[r], top) << 1;
                bits = found ? found : bits;
                from = found ? r : from;
            }
            const int lane = first_bit(bits) - 1;  // -1: merged
            origin_[t * K + s] = static_cast<std::uint32_t>(from + kAge * (lane < 0 ? 0 : depth_ - 1 - lane));
            const double* past = lane < 0 ? never_ : last_seen_[from][0] + lane;
            STAGEGUARD_UNROLL
            for (int r = 0; r < K; ++r) seen[s][r] = r == from ? static_cast<double>(t - 1) : past[r * kAges];
        }
        STAGEGUARD_UNROLL
        for (int s = 0; s < K; ++s)
            STAGEGUARD_UNROLL
            for (int r = 0; r < K; ++r)
                if (r != s) choose<kAges>(enters_, Ages::all(seen[s][r]), older(Ages::load(last_seen_[s][r]))).store(last_seen_[s][r]);
    }

    bool forward(const double* evidence) {
        Ages young[K];
        const P stay = P::load(rules_.stay), weight = P::load(rules_.weight);
        const Ages none = Ages::all(A::impossible);
        double row[kStride], grown[kStride], best[K];
        P e = A::evidence(P::load(evidence), weight);
        e.store(row);
        std::fill(row + K, row + kStride, A::impossible);
        Stages merged = rules_.censored ? Stages::load(row) : Stages::all(A::impossible);  // a cut bout is as old as it needs to be
        for (int s = 0; s < K; ++s) young[s] = rules_.censored ? none : choose<kAges>(enters_, Ages::all(row[s]), none);
        stayed_[0] = 0;
        for (std::int64_t t = 1; t < n_epochs_; ++t) {
            e = A::evidence(P::load(evidence + t * K), weight);
            e.store(row);
            A::combine(stay, e).store(grown);
            enter_best(t, young, merged, best);
            const Stages old = A::combine(merged, wide(stay)), fresh = A::combine(oldest_of<K>(young, A::impossible), wide(stay));
            stayed_[t] = static_cast<std::uint8_t>(at_least(old, fresh));
            merged = A::combine(larger(old, fresh), wide(e));
            STAGEGUARD_UNROLL
            for (int s = 0; s < K; ++s)
                young[s] = choose<kAges>(enters_, Ages::all(A::combine(best[s], row[s])), older(A::combine(young[s], Ages::all(grown[s]))));
            if (A::rescales && t % kGreedyRescaleEvery == 0 && !rescale(young, merged)) return false;
        }
        merged.store(merged_);
        for (int s = 0; s < K; ++s) young[s].store(young_[s]);
        return true;
    }

    bool rescale(Ages* young, Stages& merged) {
        Ages most = young[0];
        for (int s = 1; s < K; ++s) most = larger(most, young[s]);
        const double top = larger(top_of(most), top_of(merged));
        if (!(top > 0.0)) return false;
        const double scale = unit_scale(top, exponent_);
        merged = merged * Stages::all(scale);
        for (int s = 0; s < K; ++s) young[s] = young[s] * Ages::all(scale);
        return true;
    }

    Outcome backtrace(std::int8_t* labels) const {
        double best = A::impossible;
        int s = -1;
        std::int64_t start = -1;
        for (int stage = 0; stage < K; ++stage) {
            if (merged_[stage] > best) best = merged_[stage], s = stage, start = -1;
            for (int lane = 0; lane < depth_ - 1; ++lane)
                if (young_[stage][lane] > best) best = young_[stage][lane], s = stage, start = n_epochs_ - (depth_ - 1 - lane);
        }
        if (s < 0) return {kImpossibleScore, 0};
        const std::int64_t end = n_epochs_ - 1;
        const auto merged = [this](std::int64_t t, int stage) { return merged_start(t, stage); };
        if (start < 0) start = merged(end, s);
        const std::int64_t switches = write_bouts<K>(labels, end, s, start, origin_, merged);
        return {A::log_score(best, exponent_), switches};
    }

    std::int64_t merged_start(std::int64_t t, int s) const {
        while (t > 0 && (stayed_[t] >> s & 1u)) --t;
        return std::max<std::int64_t>(t - depth_ + 1, 0);
    }

    static Stages wide(P p) {
        Stages r;
        std::memcpy(r.x, p.x, sizeof r.x);
        return r;
    }

    const BoutRules& rules_;
    const std::int64_t window_epochs_;
    const int depth_;
    const Ages::Mask enters_;  // the lane of bouts that are an epoch old
    std::int64_t n_epochs_ = 0, exponent_ = 0;
    alignas(32) double from_[K][kStride];  // [to][from] of merged bouts
    alignas(32) double change_[K][K][kAges], penalised_[K][K][kAges];  // [from][to], impossible for bouts too young to end
    alignas(32) double last_seen_[K][K][kAges];  // [stage of the bout][other stage]
    double never_[K * kAges];
    double merged_[kStride], young_[K][kAges];
    std::uint32_t* origin_ = nullptr;  // (T, K) which survivor a bout that begins here continues
    std::uint8_t* stayed_ = nullptr;   // (T,)
};

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
