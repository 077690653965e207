// The stager's own choice per epoch, with the row checks done on the way.
#pragma once

#include <cmath>
#include <cstdint>

#include "pack.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

constexpr double kSumTolerance = 1e-3;  // how far from 1 a row may sum

// `weight` multiplies each stage; ones leave the stager's choice alone. Ties go to the earlier stage.
template <int K>
Choice argmax(const double* probabilities, std::int64_t n_epochs, const double* weight, std::int8_t* labels) {
    bool bad = false;
    std::int64_t switches = 0;
    int before = -1;
    for (std::int64_t t = 0; t < n_epochs; ++t) {
        const double* row = probabilities + t * K;
        double best = row[0] * weight[0], sum = row[0];
        bad |= row[0] < 0.0;
        int stage = 0;
        for (int s = 1; s < K; ++s) {
            const double weighted = row[s] * weight[s];
            stage = weighted > best ? s : stage;
            best = larger(weighted, best);
            sum += row[s];
            bad |= row[s] < 0.0;
        }
        bad |= !(std::fabs(sum - 1.0) <= kSumTolerance);  // written so that NaN is bad
        switches += stage != before;
        before = stage;
        labels[t] = static_cast<std::int8_t>(stage);
    }
    return {switches - 1, bad};
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
