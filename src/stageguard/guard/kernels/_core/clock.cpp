#include "clock.hpp"

#include <algorithm>

namespace stageguard {

Onsets sleep_onsets(const std::int8_t* labels, std::int64_t start, std::int64_t stop, int wake, double restart_epochs) {
    Onsets onsets;
    std::int64_t n_wake = 0;
    bool is_broken = false;
    for (std::int64_t t = start; t < stop; ++t) {
        if (labels[t] == wake) {
            ++n_wake;
        } else if (labels[t] < 0) {
            is_broken = true;
        } else {
            if (onsets.empty() || (!is_broken && static_cast<double>(n_wake) >= restart_epochs)) onsets.push_back(t);
            n_wake = 0, is_broken = false;
        }
    }
    return onsets;
}

void clock_factors(const ClockRules& clock, const Onsets& onsets, std::int64_t start, std::int64_t stop, double* factors, std::int64_t n_timed) {
    const std::int64_t k = clock.n_stages;
    std::fill_n(factors, n_timed * k, 1.0);
    for (std::int64_t t = start; t < onsets[0]; ++t)
        for (std::int64_t s = 0; s < k; ++s)
            if (s != clock.wake) factors[t * k + s] = std::min(clock.rows[s], 1.0);
    for (std::size_t i = 0; i < onsets.size(); ++i) {
        const std::int64_t end = i + 1 < onsets.size() ? onsets[i + 1] : stop;
        std::copy_n(clock.rows, std::min(end - onsets[i], clock.n_rows) * k, factors + onsets[i] * k);
    }
}

}  // namespace stageguard
