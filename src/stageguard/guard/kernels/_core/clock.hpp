// The clock: where sleep begins, and what the time since then multiplies the evidence by.
#pragma once

#include <cstdint>
#include <vector>

namespace stageguard {

struct ClockRules {
    const double* rows;  // (n_rows, n_stages) what multiplies each stage's evidence, from onset on
    std::int64_t n_rows, n_stages;
    int wake;
};

using Onsets = std::vector<std::int64_t>;

// The first epoch of sleep in [start, stop), and of sleep after each unbroken wake that restarts the clock.
Onsets sleep_onsets(const std::int8_t* labels, std::int64_t start, std::int64_t stop, int wake, double restart_epochs);

// Factors (n_timed, n_stages) of the first epochs, up to the last row after the last onset.
void clock_factors(const ClockRules& clock, const Onsets& onsets, std::int64_t start, std::int64_t stop, double* factors, std::int64_t n_timed);

}  // namespace stageguard
