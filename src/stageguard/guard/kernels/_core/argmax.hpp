// The stager's own choice per epoch, with the row checks done on the way.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "four_rows.hpp"
#include "labels.hpp"
#include "pack.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// Returns whether some row is not a distribution. K is 0 where `n_stages` is known at run time alone.
template <int K>
bool choose_each(const double* probabilities, std::int64_t n_epochs, int n_stages, const double* weight, std::int8_t* labels) {
    const int k = K > 0 ? K : n_stages;
    double least = 0.0, farthest = 0.0, total = 0.0;
    for (std::int64_t t = 0; t < n_epochs; ++t) {
        const double* row = probabilities + t * k;
        double best = row[0] * weight[0], sum = 0.0, lowest = row[0];
        int stage = 0;
        for (int s = 0; s < k; ++s) {
            const double value = row[s] * weight[s];
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

// The same of the stager's own choices, four epochs at once where that can be; the rest is left for `choose_each`.
template <int K>
bool choose_fours([[maybe_unused]] const double* probabilities, [[maybe_unused]] std::int64_t n_fours, [[maybe_unused]] std::int8_t* labels) {
    bool bad[kLanes] = {};
#if defined(__AVX2__)
    FourRows<K> rows;
    for (std::int64_t i = 0; i < n_fours; ++i) {
        const double* row = probabilities + i * kLanes * K;
        rows.load(row, row + K, row + 2 * K, row + 3 * K);
        const std::int32_t best = rows.best();
        std::memcpy(labels + i * kLanes, &best, kLanes);
    }
    rows.bad_rows(bad);
#endif
    return bad[0] || bad[1] || bad[2] || bad[3];
}

// `weight` multiplies each stage, and `clock` (n_timed, K) those of the first epochs; ones leave the stager's choice alone.
// Ties go to the earlier stage.
template <int K>
Choice argmax(const double* probabilities, std::int64_t n_epochs, int n_stages, const double* weight, const double* clock,
              std::int64_t n_timed, std::int8_t* labels) {
    const int k = K > 0 ? K : n_stages;
    bool is_weighted = false, bad = false;
    for (int s = 0; s < k; ++s) is_weighted |= weight[s] != 1.0;
    std::int64_t done = 0;
    if constexpr (kHasAvx2 && K > 0)
        if (!is_weighted) {
            done = n_epochs - n_epochs % kLanes;
            bad = choose_fours<K>(probabilities, done / kLanes, labels);
        }
    bad |= choose_each<K>(probabilities + done * k, n_epochs - done, k, weight, labels + done);
    for (std::int64_t t = 0; t < n_timed; ++t) {
        double timed[K > 0 ? K : kMostLabels];
        for (int s = 0; s < k; ++s) timed[s] = weight[s] * clock[t * k + s];
        choose_each<K>(probabilities + t * k, 1, k, timed, labels + t);
    }
    return {n_differing(labels, labels + 1, n_epochs - 1), bad};
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
