// Picks the instantiation of the sums for a number of stages and a longest minimum. Included once per variant.
#pragma once

#include "for_stages.hpp"
#include "structured_sums.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

template <int K, int M>
Sum run_smooth(const BoutRules& rules, Workspace& work, const double* evidence, std::int64_t n_epochs, double* marginals) {
    const int k = rules.n_stages;
    std::vector<double> wide(kIsSmall && k < K ? static_cast<std::size_t>(n_epochs * K) : 0);
    const Sum sum = filled<K, Product>(rules, evidence, n_epochs, [&](const BoutRules& all, const double* rows) {
        return StructuredSums<K, M>(all, work).smooth(rows, n_epochs, wide.empty() ? marginals : wide.data());
    });
    if (!wide.empty())
        for (std::int64_t t = 0; t < n_epochs; ++t) std::copy_n(wide.data() + t * K, k, marginals + t * k);
    return sum;
}

template <int K, int M>
Sum run_draw(const BoutRules& rules, Workspace& work, const double* evidence, std::int64_t n_epochs,
             const std::uint64_t* streams, std::int64_t n_draws, std::int8_t* labels) {
    return filled<K, Product>(rules, evidence, n_epochs, [&](const BoutRules& all, const double* rows) {
        return StructuredSums<K, M>(all, work).draw(rows, n_epochs, streams, n_draws, labels);
    });
}

SmoothKernel smooth_kernel(int n_stages, int longest) {
    return for_rules<SmoothKernel, kMostStates>(n_stages, longest, [](auto k, auto m) -> SmoothKernel { return run_smooth<k.value, m.value>; });
}
DrawKernel draw_kernel(int n_stages, int longest) {
    return for_rules<DrawKernel, kMostStates>(n_stages, longest, [](auto k, auto m) -> DrawKernel { return run_draw<k.value, m.value>; });
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
