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

// Returns whether some row is not a distribution.
template <int K>
bool choose_each(const double* probabilities, std::int64_t n_epochs, const double* weight, std::int8_t* labels) {
    double least[K], farthest = 0.0, total = 0.0;
    for (int s = 0; s < K; ++s) least[s] = 0.0;
    for (std::int64_t t = 0; t < n_epochs; ++t) {
        const double* row = probabilities + t * K;
        double best = row[0] * weight[0], sum = 0.0;
        int stage = 0;
        for (int s = 0; s < K; ++s) {
            const double value = row[s] * weight[s];
            stage = value > best ? s : stage;
            best = larger(value, best);
            sum += row[s];
            least[s] = row[s] < least[s] ? row[s] : least[s];
        }
        farthest = larger(std::fabs(sum - 1.0), farthest);
        total += sum;
        labels[t] = static_cast<std::int8_t>(stage);
    }
    bool bad = farthest > kSumTolerance || std::isnan(total);  // NaN loses every comparison, but sticks in the total
    for (int s = 0; s < K; ++s) bad |= least[s] < -kRounding;
    return bad;
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
Choice argmax(const double* probabilities, std::int64_t n_epochs, const double* weight, const double* clock,
              std::int64_t n_timed, std::int8_t* labels) {
    bool is_weighted = false;
    for (int s = 0; s < K; ++s) is_weighted |= weight[s] != 1.0;
    const std::int64_t n_fours = kHasAvx2 && !is_weighted ? n_epochs / kLanes : 0, done = n_fours * kLanes;
    bool bad = choose_fours<K>(probabilities, n_fours, labels);
    bad |= choose_each<K>(probabilities + done * K, n_epochs - done, weight, labels + done);
    for (std::int64_t t = 0; t < n_timed; ++t) {
        double timed[K];
        for (int s = 0; s < K; ++s) timed[s] = weight[s] * clock[t * K + s];
        choose_each<K>(probabilities + t * K, 1, timed, labels + t);
    }
    return {n_differing(labels, labels + 1, n_epochs - 1), bad};
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
