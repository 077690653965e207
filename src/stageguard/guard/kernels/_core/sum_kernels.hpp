// Picks the instantiation of the sums for a number of stages and a longest minimum. Included once per variant.
#pragma once

#include "structured_sums.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

template <int K, int M, class A, class P>
Sum run_smooth(const BoutRules& rules, Workspace& work, const double* evidence, std::int64_t n_epochs, double* marginals) {
    return StructuredSums<K, M, A, P>(rules, work).smooth(evidence, n_epochs, marginals);
}

template <int K, int M, class A, class P>
Sum run_draw(const BoutRules& rules, Workspace& work, const double* evidence, std::int64_t n_epochs,
             const std::uint64_t* streams, std::int64_t n_draws, std::int8_t* labels) {
    return StructuredSums<K, M, A, P>(rules, work).draw(evidence, n_epochs, streams, n_draws, labels);
}

template <int K>
struct ByProducts {
    static SmoothKernel smooth(int longest) {
        if (longest <= 1) return run_smooth<K, 1, Product, Pack<K>>;
        if (longest <= 3) return run_smooth<K, 3, Product, Pack<K>>;
        if (longest <= kLongestMinimum) return run_smooth<K, kLongestMinimum, Product, Pack<K>>;
        return nullptr;
    }
    static DrawKernel draw(int longest) {
        if (longest <= 1) return run_draw<K, 1, Product, Pack<K>>;
        if (longest <= 3) return run_draw<K, 3, Product, Pack<K>>;
        if (longest <= kLongestMinimum) return run_draw<K, kLongestMinimum, Product, Pack<K>>;
        return nullptr;
    }
};

template <int K>
struct ByLogarithms {
    static SmoothKernel smooth(int longest) {
        return longest <= kLongestMinimum ? run_smooth<K, kLongestMinimum, Logarithmic, PlainPack<K>> : nullptr;
    }
    static DrawKernel draw(int longest) {
        return longest <= kLongestMinimum ? run_draw<K, kLongestMinimum, Logarithmic, PlainPack<K>> : nullptr;
    }
};

template <template <int> class By, class Kernel>
Kernel sum_kernel(int n_stages, int longest) {
    const auto pick = [longest](auto by) -> Kernel {
        if constexpr (std::is_same_v<Kernel, SmoothKernel>) return by.smooth(longest);
        else return by.draw(longest);
    };
    switch (n_stages) {
        case 2: return pick(By<2>{});
        case 3: return pick(By<3>{});
        case 4: return pick(By<4>{});
        case 5: return pick(By<5>{});
        case 6: return pick(By<6>{});
        case 7: return pick(By<7>{});
        case 8: return pick(By<8>{});
        default: return nullptr;
    }
}

SmoothKernel smooth_kernel(int n_stages, int longest) { return sum_kernel<ByProducts, SmoothKernel>(n_stages, longest); }
DrawKernel draw_kernel(int n_stages, int longest) { return sum_kernel<ByProducts, DrawKernel>(n_stages, longest); }

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
