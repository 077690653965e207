// Random paths, from the last epoch back, and random epochs.
#pragma once

#include <cstdint>

#include "rules.hpp"

namespace stageguard {

// What the sums over all paths of minimum bouts left behind, as structured_sums.hpp has it.
struct BoutSums {
    const BoutRules& rules;
    int n_stages, most_ages;  // K, M
    std::int64_t stride;
    const double *mature, *stays;  // (T, stride) scores, chance that the mature bout of s at t was mature at t-1
    const double *change, *last;   // (K, K), (K, M) [s][0] mature, [s][i] young in slot M-1-i
    double total;
};

// `labels` (n_draws, T); each draw has a stream of random numbers of its own.
void draw_bouts(const BoutSums& sums, std::int64_t n_epochs, const std::uint64_t* streams, std::int64_t n_draws, std::int8_t* labels);

// The same without rules: every epoch by itself, from likelihoods, one number an epoch, in order of time.
void draw_epochs(Workspace& work, const double* evidence, std::int64_t n_epochs, std::int64_t n_stages,
                 const std::uint64_t* streams, std::int64_t n_draws, std::int8_t* labels);

}  // namespace stageguard
