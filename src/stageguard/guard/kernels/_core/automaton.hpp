// What is worked out over an automaton, for any number of stages.
#pragma once

#include <cstdint>
#include <vector>

#include "rules.hpp"

namespace stageguard {

// The labels of the best path, and its score.
double decode_automaton(const Automaton& a, Workspace& work, const double* evidence, std::int64_t n_epochs, std::int8_t* labels);

// The best score of each path that is pinned to given labels in one region, and of the path without pins in `base`. Regions
// lie in order of time and do not overlap.
void keep_automaton(const Automaton& a, Workspace& work, const double* evidence, std::int64_t n_epochs, const std::int8_t* labels,
                    const std::vector<Region>& regions, double& base, double* kept);

// `marginals` (T, n_stages). `products` tells how to reckon inside.
Sum smooth_automaton(const Automaton& a, Workspace& work, bool products, const double* evidence, std::int64_t n_epochs,
                     double* marginals);

// `labels` (n_draws, T); each draw has a stream of random numbers of its own.
Sum draw_automaton(const Automaton& a, Workspace& work, bool products, const double* evidence, std::int64_t n_epochs,
                   const std::uint64_t* streams, std::int64_t n_draws, std::int8_t* labels);

}  // namespace stageguard
