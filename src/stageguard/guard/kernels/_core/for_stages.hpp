// Picks the instantiation of a kernel for a number of stages and a longest minimum bout.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// Where few processors run it, one kernel of each kind serves all numbers of stages and all minimum bouts; see `filled`.
#if defined(STAGEGUARD_SMALL)
constexpr bool kIsSmall = true;
#else
constexpr bool kIsSmall = false;
#endif

// Returns what `pick` gives for so many stages, which it is told by a type; null where the variant has none.
template <class Kernel, int Most = kMostStages, int K = kIsSmall ? kMostStages : 2, class Pick>
Kernel for_stages(int n_stages, Pick pick) {
    if constexpr (K <= Most) {
        const bool fits = kIsSmall ? n_stages >= 2 && n_stages <= K : n_stages == K;
        return fits ? pick(std::integral_constant<int, K>{}) : for_stages<Kernel, Most, K + 1>(n_stages, pick);
    } else {
        return nullptr;
    }
}

// The same for short minimum bouts, of up to three epochs; null for longer ones.
template <class Kernel, int Most = kMostStages, class Pick>
Kernel for_short_rules(int n_stages, int longest, Pick pick) {
    return for_stages<Kernel, Most>(n_stages, [=](auto k) -> Kernel {
        if constexpr (!kIsSmall) {
            if (longest <= 1) return pick(k, std::integral_constant<int, 1>{});
            if (longest <= 3) return pick(k, std::integral_constant<int, 3>{});
        }
        return nullptr;
    });
}

// The same for minimum bouts of any length that is compiled.
template <class Kernel, int Most = kMostStages, class Pick>
Kernel for_rules(int n_stages, int longest, Pick pick) {
    if (const Kernel kernel = for_short_rules<Kernel, Most>(n_stages, longest, pick)) return kernel;
    return for_stages<Kernel, Most>(longest <= kLongestMinimum ? n_stages : 0, [=](auto k) -> Kernel {
        return pick(k, std::integral_constant<int, kLongestMinimum>{});
    });
}

// Rules and evidence of fewer than K stages, filled up with stages that no path reaches.
template <int K, class A>
struct Filled {
    double weight[K], stay[K], change[K * K];
    std::int32_t minimum[K];
    std::vector<double> evidence, clock;
    BoutRules rules;

    Filled(const BoutRules& given, const double* rows, std::int64_t n_epochs)
        : evidence(wide(rows, n_epochs, given.n_stages, A::impossible)),
          clock(wide(given.clock, given.n_timed, given.n_stages, A::certain)), rules(given) {
        const int k = given.n_stages;
        std::fill_n(change, K * K, A::impossible);
        for (int s = 0; s < K; ++s) {
            weight[s] = s < k ? given.weight[s] : 0.0;
            stay[s] = s < k ? given.stay[s] : A::impossible;
            minimum[s] = s < k ? given.minimum[s] : 1;
            if (s < k) std::copy_n(given.change + s * k, k, change + s * K);
        }
        rules.weight = weight, rules.stay = stay, rules.change = change, rules.minimum = minimum, rules.clock = clock.data();
    }

    static std::vector<double> wide(const double* rows, std::int64_t n, int k, double value) {
        std::vector<double> all(static_cast<std::size_t>(n * K), value);
        for (std::int64_t t = 0; t < n; ++t) std::copy_n(rows + t * k, k, all.data() + t * K);
        return all;
    }
};

// Runs a kernel for K stages on rules and evidence of as many, or of fewer in a small build.
template <int K, class A, class Run>
auto filled(const BoutRules& rules, const double* evidence, std::int64_t n_epochs, Run run) {
    if constexpr (kIsSmall)
        if (rules.n_stages < K) {
            const Filled<K, A> all(rules, evidence, n_epochs);
            return run(all.rules, all.evidence.data());
        }
    return run(rules, evidence);
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
