// Picks the instantiation of the sums for a number of stages and a longest minimum. Included once per variant.
#pragma once

#include "for_stages.hpp"
#include "structured_sums.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

template <int K, int M>
Sum run_smooth(const BoutRules& rules, Workspace& work, const double* evidence, std::int64_t n_epochs, double* marginals) {
    return StructuredSums<K, M>(rules, work).smooth(evidence, n_epochs, marginals);
}

template <int K, int M>
Sum run_draw(const BoutRules& rules, Workspace& work, const double* evidence, std::int64_t n_epochs,
             const std::uint64_t* streams, std::int64_t n_draws, std::int8_t* labels) {
    return StructuredSums<K, M>(rules, work).draw(evidence, n_epochs, streams, n_draws, labels);
}

SmoothKernel smooth_kernel(int n_stages, int longest) {
    return for_rules<SmoothKernel>(n_stages, longest, [](auto k, auto m) -> SmoothKernel { return run_smooth<k.value, m.value>; });
}
DrawKernel draw_kernel(int n_stages, int longest) {
    return for_rules<DrawKernel>(n_stages, longest, [](auto k, auto m) -> DrawKernel { return run_draw<k.value, m.value>; });
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
