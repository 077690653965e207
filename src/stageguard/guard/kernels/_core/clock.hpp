// The clock: where sleep begins, and what the time since then multiplies the evidence by.
#pragma once

#include <cstdint>
#include <vector>

#include "rules.hpp"

namespace stageguard {

struct ClockRules {
    const double* rows;  // (n_rows, n_stages) what multiplies each stage's evidence, from onset on
    std::int64_t n_rows, n_stages;
    int wake;
    double restart_epochs;  // an unbroken wake as long as that starts the time again
    double bout_nats;       // what a bout of the stager may lose in all
};

using Onsets = std::vector<std::int64_t>;

// The first epoch of sleep in [start, stop), and of sleep after each unbroken wake that restarts the clock.
Onsets sleep_onsets(const std::int8_t* labels, std::int64_t start, std::int64_t stop, int wake, double restart_epochs);

// Factors (n_timed, n_stages) of the first epochs; returns n_timed. `own` is the stager's choice.
std::int64_t clock_factors(const ClockRules& clock, const Onsets& onsets, const std::int8_t* own, std::int64_t n_epochs,
                                  std::int64_t start, std::int64_t stop, Scratch<double>& out);

// How a path with the clock was found.
struct Passes {
    Onsets onsets;  // what the time is counted from
    int n = 0;
    bool is_settled = true;  // the path falls asleep there
};

// Decodes a night again with the clock that its path sets, until sleep onset stays where it was read.
Passes decode_timed(const ClockRules& clock, int most_passes, StructuredKernel kernel, BoutRules rules, Workspace& work,
                           const NightRows& night, Outcome& outcome);

}  // namespace stageguard
