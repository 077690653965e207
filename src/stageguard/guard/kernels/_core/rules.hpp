// What a kernel is told and what it answers: plain tables, no Python.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace stageguard {

constexpr double kImpossibleScore = -std::numeric_limits<double>::infinity();

struct Outcome {
    double score;           // nats; -inf when no path satisfies the constraints
    std::int64_t switches;  // stage changes along the path
};

// Over all paths instead of the best one.
struct Sum {
    double log_sum;  // nats; -inf when no path satisfies the constraints
    bool certified;  // false: products may have underflowed, and only logarithms can tell
};

struct Choice {
    std::int64_t switches;
    bool bad_rows;  // some row is not a distribution: the labels mean nothing, and the caller finds out which row
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
    double clip = 0.0;            // smallest share of a row that counts (sums of products only)
    const double* clock = nullptr;  // (n_timed, K) multiplies, or is added to, the evidence of the first epochs (decoders only)
    std::int64_t n_timed = 0;
    int n_stages = 0;  // K
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

// A night of several that are checked and decoded at once: what is read of it, and where its labels go.
struct NightRows {
    const double* probabilities;
    std::int64_t n_epochs;
    std::int8_t *own, *path;
};

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
    Scratch<double> scores;        // (T, stride) structured: best score of a path whose bout has reached its minimum
    Scratch<std::uint8_t> stayed;  // (T,) bit s: the mature bout of s at t was mature at t-1 already; (block, n_states) automaton
    Scratch<std::uint32_t> lanes;  // (T,) the same of several transition weights, or nights; (T, K) survivors of the greedy pass
    Scratch<std::int8_t> spare;    // (T,) what lanes without a night write
    Scratch<double> factors;       // (n_timed, K) what the clock multiplies the first epochs by
    Scratch<double> heads;         // (n_blocks, n_states) automaton: each block's first row
    Scratch<double> weights;       // (n_edges, lanes) automaton: weights of several automata side by side
    Scratch<double> stays;         // (T, stride) structured: chance that the mature bout of s at t was mature at t-1
    Scratch<double> scales;        // (T / 8,) structured: by what the scores were multiplied

    void trim() {
        constexpr std::int64_t kMostKept = std::int64_t{1} << 20;
        scores.trim(kMostKept);
        stayed.trim(kMostKept);
        lanes.trim(kMostKept);
        spare.trim(kMostKept);
        factors.trim(kMostKept);
        heads.trim(kMostKept);
        weights.trim(kMostKept);
        stays.trim(kMostKept);
        scales.trim(kMostKept);
    }
};

using StructuredKernel = Outcome (*)(const BoutRules&, Workspace&, const double*, std::int64_t, std::int8_t*);
using LanesKernel = void (*)(const BoutRules*, Workspace&, const double*, std::int64_t, std::int8_t* const*, Outcome*);
using SmoothKernel = Sum (*)(const BoutRules&, Workspace&, const double*, std::int64_t, double*);
using DrawKernel = Sum (*)(const BoutRules&, Workspace&, const double*, std::int64_t, const std::uint64_t*, std::int64_t,
                           std::int8_t*);
using GreedyKernel = Outcome (*)(const BoutRules&, const FlipFlop&, Workspace&, const double*, std::int64_t, std::int8_t*);
using KeepGreedyKernel = void (*)(const BoutRules&, const FlipFlop&, const double*, std::int64_t, const std::int8_t*,
                                  const std::vector<Region>&, double&, double*);
using NightsKernel = void (*)(const BoutRules&, Workspace&, const NightRows*, bool*, Outcome*);
using AutomatonKernel = void (*)(const Automaton*, Workspace&, const double*, std::int64_t, std::int8_t* const*, Outcome*);
using ArgmaxKernel = Choice (*)(const double*, std::int64_t, int, const double*, const double*, std::int64_t, std::int8_t*);

constexpr int kMostStages = 5;  // that a kernel is compiled for; an automaton takes more
constexpr int kMostLabels = 127;  // stages that a label can tell apart
constexpr int kLanes = 4;  // transition weights tried, or nights decoded, at once
constexpr int kLongestMinimum = 8;

// Compiled once for any processor and once more for AVX2; null where a variant has none for so many stages or so long a minimum.
namespace plain {
GreedyKernel greedy_kernel(int n_stages, bool products);
KeepGreedyKernel keep_greedy_kernel(int n_stages);
StructuredKernel structured_kernel(int n_stages, int longest_minimum, bool products);
LanesKernel lanes_kernel(int n_stages, int longest_minimum);    // these two are null also where one after the other is as fast
NightsKernel nights_kernel(int n_stages, int longest_minimum);
AutomatonKernel automaton_kernel(bool several);
ArgmaxKernel argmax_kernel(int n_stages);
SmoothKernel smooth_kernel(int n_stages, int longest_minimum);
DrawKernel draw_kernel(int n_stages, int longest_minimum);
}  // namespace plain
#if defined(STAGEGUARD_HAS_AVX2)
namespace avx2 {
GreedyKernel greedy_kernel(int n_stages, bool products);
KeepGreedyKernel keep_greedy_kernel(int n_stages);
StructuredKernel structured_kernel(int n_stages, int longest_minimum, bool products);
LanesKernel lanes_kernel(int n_stages, int longest_minimum);
NightsKernel nights_kernel(int n_stages, int longest_minimum);
AutomatonKernel automaton_kernel(bool several);
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
