// The stager's own choice per epoch, with the row checks done on the way.
#pragma once

#include <cmath>
#include <cstdint>

#include "pack.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

constexpr double kSumTolerance = 1e-3;  // how far from 1 a row may sum
constexpr double kRounding = 1e-9;      // how far below 0 rounding may put a probability

// `weight` multiplies each stage, and `clock` (n_timed, K) those of the first epochs; ones leave the stager's choice alone. Ties
// go to the earlier stage. Returns whether some row is not a distribution: then the labels mean nothing, and the caller finds out
// which row. K is 0 where `n_stages` is known at run time alone.
template <int K>
bool argmax(const double* probabilities, std::int64_t n_epochs, int n_stages, const double* weight, const double* clock,
            std::int64_t n_timed, std::int8_t* labels) {
    const int k = K > 0 ? K : n_stages;
    double least = 0.0, farthest = 0.0, total = 0.0;
    for (std::int64_t t = 0; t < n_epochs; ++t) {
        const double *row = probabilities + t * k, *timed = t < n_timed ? clock + t * k : nullptr;
        double best = kImpossibleScore, sum = 0.0, lowest = row[0];
        int stage = 0;
        for (int s = 0; s < k; ++s) {
            const double factor = timed ? weight[s] * timed[s] : weight[s], value = row[s] * factor;
            stage = value > best ? s : stage;
            best = larger(value, best);
            sum += row[s];
            lowest = row[s] < lowest ? row[s] : lowest;
        }
        least = lowest < least ? lowest : least;
        farthest = larger(std::fabs(sum - 1.0), farthest);
        total += sum;
        labels[t] = static_cast<std::int8_t>(stage);
    }
    return farthest > kSumTolerance || std::isnan(total) || least < -kRounding;  // NaN loses every comparison, but sticks in the total
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
