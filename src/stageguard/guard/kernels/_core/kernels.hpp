// Picks the instantiation for a number of stages and a longest minimum. Included once per variant.
#pragma once

#include "argmax.hpp"
#include "bouts.hpp"
#include "for_stages.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

template <int K, int M, class A>
Outcome run_path(const BoutRules& rules, Workspace& work, const double* rows, std::int64_t n_epochs, std::int8_t* labels) {
    return filled<K, A>(rules, rows, n_epochs, [&](const BoutRules& all, const double* wide) {
        Outcome found;
        BoutViterbi<K, M, PlainPack<1>, A>(&all, work).run(wide, n_epochs, labels, &found);
        return found;
    });
}

PathKernel path_kernel(int n_stages, int longest, bool products) {
    return for_rules<PathKernel>(n_stages, longest, [=](auto k, auto m) -> PathKernel {
        return products ? run_path<k.value, m.value, Product> : run_path<k.value, m.value, Logarithmic>;
    });
}

template <int K, int M>
void run_curve(const BoutRules* rules, Workspace& work, const double* rows, std::int64_t n_epochs, Outcome* outcomes) {
    BoutViterbi<K, M, Lanes, Product>(rules, work).run(rows, n_epochs, nullptr, outcomes);
}

CurveKernel curve_kernel(int n_stages, int longest) {
    return for_short_rules<CurveKernel>(n_stages, longest, [](auto k, auto m) -> CurveKernel { return run_curve<k.value, m.value>; });
}

ArgmaxKernel argmax_kernel(int n_stages) {
    const ArgmaxKernel kernel = for_stages<ArgmaxKernel>(kIsSmall ? 0 : n_stages, [](auto k) -> ArgmaxKernel { return argmax<k.value>; });
    return kernel ? kernel : argmax<0>;
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
