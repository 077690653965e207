// Picks the instantiation of a kernel for a number of stages and a longest minimum bout.
#pragma once

#include <type_traits>

#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// Returns what `pick` gives for so many stages, which it is told by a type; null where the variant has none.
template <class Kernel, int K = 2, class Pick>
Kernel for_stages(int n_stages, Pick pick) {
    if constexpr (K <= kMostStages)
        return n_stages == K ? pick(std::integral_constant<int, K>{}) : for_stages<Kernel, K + 1>(n_stages, pick);
    else
        return nullptr;
}

// How many stages have a kernel for short minimum bouts too: those of every profile that is shipped. Where few processors run it, none.
#if defined(STAGEGUARD_SMALL)
constexpr int kMostWithShort = 0;
#else
constexpr int kMostWithShort = 5;
#endif

// The same for short minimum bouts, of up to three epochs; null for longer ones.
template <class Kernel, class Pick>
Kernel for_short_rules(int n_stages, int longest, Pick pick) {
    return for_stages<Kernel>(n_stages, [=](auto k) -> Kernel {
        if constexpr (k.value <= kMostWithShort) {
            if (longest <= 1) return pick(k, std::integral_constant<int, 1>{});
            if (longest <= 3) return pick(k, std::integral_constant<int, 3>{});
        }
        return nullptr;
    });
}

// The same for minimum bouts of any length that is compiled.
template <class Kernel, class Pick>
Kernel for_rules(int n_stages, int longest, Pick pick) {
    if (const Kernel kernel = for_short_rules<Kernel>(n_stages, longest, pick)) return kernel;
    return for_stages<Kernel>(longest <= kLongestMinimum ? n_stages : 0, [=](auto k) -> Kernel {
        return pick(k, std::integral_constant<int, kLongestMinimum>{});
    });
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
