// What a kernel is told and what it answers: plain tables, no Python.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace stageguard {

constexpr double kImpossibleScore = -std::numeric_limits<double>::infinity();

constexpr int kMostStages = 5;    // that a kernel is compiled for; an automaton takes more
constexpr int kMostStates = 6;    // that sums are compiled for: wake before sleep may be a state of its own
constexpr int kMostLabels = 127;  // stages that a label can tell apart
constexpr int kLanes = 4;         // transition weights tried at once
constexpr int kLongestMinimum = 8;

struct Outcome {
    double score;                           // nats; -inf when no path satisfies the constraints
    std::int64_t switches = 0;              // stage changes along the path
    std::int64_t counts[kMostStages] = {};  // epochs in each stage

    void operator+=(const Outcome& other) {
        score += other.score, switches += other.switches;
        for (int s = 0; s < kMostStages; ++s) counts[s] += other.counts[s];
    }
};

// Over all paths instead of the best one.
struct Sum {
    double log_sum;  // nats; -inf when no path satisfies the constraints
    bool certified;  // false: products may have underflowed, and only logarithms can tell
};

// Epochs first .. end - 1 of a piece.
struct Region {
    std::int64_t first, end;
};

struct BoutRules {
    const double* weight;         // (K,)   multiplies each stage's evidence (products only)
    const double* stay;           // (K,)   one more epoch in the stage
    const double* change;         // (K, K) [from, to]
    const std::int32_t* minimum;  // (K,)   epochs a complete bout must last
    bool censored;                // the recording's start may cut a bout: it has no minimum
    int n_stages = 0;             // K
    double clip = 0.0;            // smallest share of a row that counts (sums over all paths only; decoders clip by themselves)
    const double* clock = nullptr;  // (n_timed, K) multiplies the evidence of the first epochs (products only)
    std::int64_t n_timed = 0;
};

struct FlipFlop {
    double penalty_nats;
    std::int32_t window_epochs;
};

// States with a stage, weighted edges.
struct Automaton {
    std::int64_t n_states;
    std::int64_t n_stages;
    const std::int32_t* stage;    // (n_states,)
    const std::int32_t* first;    // (n_states + 1,) incoming edges of state j are first[j] .. first[j + 1]
    const std::int32_t* source;   // (n_edges,) in the order in which ties are won
    const double* weight;         // (n_edges,)
    const double* initial;        // (n_states,) -inf where no recording begins
    const double* final_weight;   // (n_states,)
};

constexpr std::int64_t kBlockBytes = std::int64_t{32} << 20;

// Memory that grows and is never cleared: every cell is written before it is read.
template <class T>
class Scratch {
  public:
    T* need(std::int64_t n) {
        if (n > size_) {
            data_.reset(new T[static_cast<std::size_t>(n)]);
            size_ = n;
        }
        return data_.get();
    }
    T* data() const { return data_.get(); }
    void trim(std::int64_t most) {
        if (size_ > most) *this = Scratch();
    }

  private:
    std::unique_ptr<T[]> data_;
    std::int64_t size_ = 0;
};

// Kept by each thread from call to call: fresh pages would cost a third of a night's decoding.
struct Workspace {
    Scratch<double> scores;         // (T, K, lanes) best score of a path whose bout has reached its minimum; (block, n_states) automaton
    Scratch<std::uint32_t> stayed;  // (T,) bit lanes * s + lane: the mature bout of s at t was mature at t-1 already
    Scratch<std::uint32_t> origin;  // (T, K) survivors of the greedy pass
    Scratch<double> heads;          // (n_blocks, n_states) automaton: each block's first row
    Scratch<double> stays;          // (T, stride) sums: chance that the mature bout of s at t was mature at t-1
    Scratch<double> scales;         // (T / 8,) sums: by what the scores were multiplied

    void trim() {
        constexpr std::int64_t kMostKept = std::int64_t{1} << 20;
        scores.trim(kMostKept);
        stayed.trim(kMostKept);
        origin.trim(kMostKept);
        heads.trim(kMostKept);
        stays.trim(kMostKept);
        scales.trim(kMostKept);
    }
};

using PathKernel = Outcome (*)(const BoutRules&, Workspace&, const double*, std::int64_t, std::int8_t*);
using CurveKernel = void (*)(const BoutRules*, Workspace&, const double*, std::int64_t, Outcome*);  // kLanes of each
using SmoothKernel = Sum (*)(const BoutRules&, Workspace&, const double*, std::int64_t, double*);
using DrawKernel = Sum (*)(const BoutRules&, Workspace&, const double*, std::int64_t, const std::uint64_t*, std::int64_t,
                           std::int8_t*);
using GreedyKernel = double (*)(const BoutRules&, const FlipFlop&, Workspace&, const double*, std::int64_t, std::int8_t*);
using KeepGreedyKernel = void (*)(const BoutRules&, const FlipFlop&, const double*, std::int64_t, const std::int8_t*,
                                  const std::vector<Region>&, double&, double*);
using ArgmaxKernel = bool (*)(const double*, std::int64_t, int, const double*, const double*, std::int64_t, std::int8_t*);

// Compiled once for any processor and once more for AVX2; null where a variant has none for so many stages or so long a minimum.
namespace plain {
GreedyKernel greedy_kernel(int n_stages, bool products);
KeepGreedyKernel keep_greedy_kernel(int n_stages);
PathKernel path_kernel(int n_stages, int longest_minimum, bool products);
CurveKernel curve_kernel(int n_stages, int longest_minimum);  // null also where one weight after the other is as fast
ArgmaxKernel argmax_kernel(int n_stages);
SmoothKernel smooth_kernel(int n_stages, int longest_minimum);
DrawKernel draw_kernel(int n_stages, int longest_minimum);
}  // namespace plain
#if defined(STAGEGUARD_HAS_AVX2)
namespace avx2 {
GreedyKernel greedy_kernel(int n_stages, bool products);
KeepGreedyKernel keep_greedy_kernel(int n_stages);
PathKernel path_kernel(int n_stages, int longest_minimum, bool products);
CurveKernel curve_kernel(int n_stages, int longest_minimum);  // null also where one weight after the other is as fast
ArgmaxKernel argmax_kernel(int n_stages);
SmoothKernel smooth_kernel(int n_stages, int longest_minimum);
DrawKernel draw_kernel(int n_stages, int longest_minimum);
}  // namespace avx2
#else
namespace avx2 = plain;
#endif

bool has_avx2();

// The kernel for AVX2 where the processor has that and the variant such a kernel, else the one for any processor.
template <class Kernel, class... Arguments>
Kernel picked(Kernel (*for_avx2)(Arguments...), Kernel (*for_any)(Arguments...), Arguments... arguments) {
    const Kernel kernel = has_avx2() ? for_avx2(arguments...) : nullptr;
    return kernel ? kernel : for_any(arguments...);
}

}  // namespace stageguard
