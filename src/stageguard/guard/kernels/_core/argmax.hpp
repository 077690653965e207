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

template <int K, bool kWeighted>
Choice choose_each(const double* probabilities, std::int64_t n_epochs, const double* weight, std::int8_t* labels) {
    double least[K], farthest = 0.0, total = 0.0;
    for (int s = 0; s < K; ++s) least[s] = 0.0;
    std::int64_t switches = 0;
    int before = -1;
    for (std::int64_t t = 0; t < n_epochs; ++t) {
        const double* row = probabilities + t * K;
        double best = kWeighted ? row[0] * weight[0] : row[0], sum = 0.0;
        int stage = 0;
        for (int s = 0; s < K; ++s) {
            const double value = kWeighted ? row[s] * weight[s] : row[s];
            stage = value > best ? s : stage;
            best = larger(value, best);
            sum += row[s];
            least[s] = row[s] < least[s] ? row[s] : least[s];
        }
        farthest = larger(std::fabs(sum - 1.0), farthest);
        total += sum;
        switches += stage != before;
        before = stage;
        labels[t] = static_cast<std::int8_t>(stage);
    }
    bool bad = farthest > kSumTolerance || std::isnan(total);  // NaN loses every comparison, but sticks in the total
    for (int s = 0; s < K; ++s) bad |= least[s] < -kRounding;
    return {switches - 1, bad};
}

// `weight` multiplies each stage, and `clock` (n_timed, K) those of the first epochs; ones leave the stager's choice alone.
// Ties go to the earlier stage.
template <int K>
Choice argmax(const double* probabilities, std::int64_t n_epochs, const double* weight, const double* clock,
              std::int64_t n_timed, std::int8_t* labels) {
    bool is_weighted = false;
    for (int s = 0; s < K; ++s) is_weighted |= weight[s] != 1.0;
    Choice choice = is_weighted ? choose_each<K, true>(probabilities, n_epochs, weight, labels)
                                : choose_each<K, false>(probabilities, n_epochs, weight, labels);
    for (std::int64_t t = 0; t < n_timed; ++t) {
        double timed[K];
        for (int s = 0; s < K; ++s) timed[s] = weight[s] * clock[t * K + s];
        const int before = labels[t];
        choose_each<K, true>(probabilities + t * K, 1, timed, labels + t);
        const int now = labels[t];
        if (t > 0) choice.switches += (now != labels[t - 1]) - (before != labels[t - 1]);
        if (t + 1 < n_epochs) choice.switches += (now != labels[t + 1]) - (before != labels[t + 1]);
    }
    return choice;
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
