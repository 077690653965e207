// Picks the instantiation for a number of stages and a longest minimum. Included once per variant.
#pragma once

#include "argmax.hpp"
#include "automaton_viterbi.hpp"
#include "for_stages.hpp"
#include "lanes.hpp"
#include "structured.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

template <int K, int M, class A>
Outcome run_structured(const BoutRules& rules, Workspace& work, const double* evidence, std::int64_t n_epochs,
                       std::int8_t* labels) {
    return filled<K, A>(rules, evidence, n_epochs, [&](const BoutRules& all, const double* rows) {
        return Structured<K, M, A>(all, work).run(rows, n_epochs, labels);
    });
}

StructuredKernel structured_kernel(int n_stages, int longest, bool products) {
    return for_rules<StructuredKernel>(n_stages, longest, [=](auto k, auto m) -> StructuredKernel {
        return products ? run_structured<k.value, m.value, Product> : run_structured<k.value, m.value, Logarithmic>;
    });
}

template <int K, int M>
void run_lanes(const BoutRules* rules, Workspace& work, const double* evidence, std::int64_t n_epochs,
               std::int8_t* const* labels, Outcome* outcomes) {
    OneNight<K> night(rules[0], evidence);
    const std::int64_t lengths[kLanes] = {n_epochs, n_epochs, n_epochs, n_epochs};
    StructuredLanes<K, M, OneNight<K>>(rules, work).run(night, lengths, labels, outcomes);
}

LanesKernel lanes_kernel(int n_stages, int longest) {
    return for_short_rules<LanesKernel>(n_stages, longest, [](auto k, auto m) -> LanesKernel { return run_lanes<k.value, m.value>; });
}

#if defined(__AVX2__)
template <int K, int M>
void run_nights(const BoutRules& rules, Workspace& work, const NightRows* nights, bool* bad, Outcome* outcomes) {
    std::int64_t lengths[kLanes];
    std::int8_t* paths[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) lengths[lane] = nights[lane].n_epochs, paths[lane] = nights[lane].path;
    const BoutRules same[kLanes] = {rules, rules, rules, rules};
    FourNights<K> rows(rules, work, nights, *std::max_element(lengths, lengths + kLanes));
    StructuredLanes<K, M, FourNights<K>>(same, work).run(rows, lengths, paths, outcomes);
    rows.bad_rows(bad);
}

NightsKernel nights_kernel(int n_stages, int longest) {
    return for_short_rules<NightsKernel>(n_stages, longest, [](auto k, auto m) -> NightsKernel { return run_nights<k.value, m.value>; });
}
#else
NightsKernel nights_kernel(int, int) { return nullptr; }
#endif

template <class P>
void run_automaton(const Automaton* lanes, Workspace& work, const double* evidence, std::int64_t n_epochs,
                   std::int8_t* const* labels, Outcome* outcomes) {
    AutomatonViterbi<P>(lanes, work).run(evidence, n_epochs, labels, outcomes);
}

AutomatonKernel automaton_kernel(bool several) { return several ? run_automaton<Lanes> : run_automaton<PlainPack<1>>; }

ArgmaxKernel argmax_kernel(int n_stages) {
    const ArgmaxKernel kernel = for_stages<ArgmaxKernel>(kIsSmall ? 0 : n_stages, [](auto k) -> ArgmaxKernel { return argmax<k.value>; });
    return kernel ? kernel : argmax<0>;
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
