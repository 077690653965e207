#include "clock.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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

std::int64_t clock_factors(const ClockRules& clock, const Onsets& onsets, const std::int8_t* own, std::int64_t n_epochs,
                                  std::int64_t start, std::int64_t stop, Scratch<double>& out) {
    const std::int64_t k = clock.n_stages, n_timed = std::min(stop, onsets.back() + clock.n_rows);
    double* factors = out.need(n_timed * k);
    std::fill_n(factors, n_timed * k, 1.0);
    for (std::int64_t t = start; t < onsets[0]; ++t)
        for (std::int64_t s = 0; s < k; ++s)
            if (s != clock.wake) factors[t * k + s] = std::min(clock.rows[s], 1.0);
    for (std::size_t i = 0; i < onsets.size(); ++i) {
        const std::int64_t end = i + 1 < onsets.size() ? onsets[i + 1] : stop;
        std::copy_n(clock.rows, std::min(end - onsets[i], clock.n_rows) * k, factors + onsets[i] * k);
    }
    for (std::int64_t begin = 0, end; begin < n_timed; begin = end) {  // bouts of the stager
        const int s = own[begin];
        double least = 1.0;
        for (end = begin; end < n_epochs && own[end] == s; ++end)
            if (s >= 0 && end < n_timed) least = std::min(least, factors[end * k + s]);
        if (least == 1.0) continue;
        const double bound = std::exp(-clock.bout_nats / static_cast<double>(end - begin));
        for (std::int64_t t = begin; t < std::min(end, n_timed); ++t) factors[t * k + s] = std::max(factors[t * k + s], bound);
    }
    return n_timed;
}

Passes decode_timed(const ClockRules& clock, int most_passes, StructuredKernel kernel, BoutRules rules, Workspace& work,
                           const NightRows& night, Outcome& outcome) {
    const auto read = [&] { return sleep_onsets(night.path, 0, night.n_epochs, clock.wake, clock.restart_epochs); };
    Passes passes{read(), 1, true};
    if (passes.onsets.empty()) return passes;
    for (;; ++passes.n) {
        rules.n_timed = 0;
        if (!passes.onsets.empty())
            rules.n_timed = clock_factors(clock, passes.onsets, night.own, night.n_epochs, 0, night.n_epochs, work.factors);
        rules.clock = work.factors.data();
        outcome = kernel(rules, work, night.probabilities, night.n_epochs, night.path);
        Onsets now = read();
        passes.is_settled = now == passes.onsets;
        if (passes.is_settled || passes.n == most_passes) return passes;
        passes.onsets = std::move(now);
    }
}

}  // namespace stageguard
