// Picks the instantiation for a number of stages and a longest minimum. Included once per variant.
#pragma once

#include "argmax.hpp"
#include "automaton_viterbi.hpp"
#include "lanes.hpp"
#include "structured.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

template <int K, int M, class A>
Outcome run_structured(const BoutRules& rules, Workspace& work, const double* evidence, std::int64_t n_epochs,
                       std::int8_t* labels) {
    return Structured<K, M, A>(rules, work).run(evidence, n_epochs, labels);
}

template <int K, class A>
StructuredKernel with_minimum(int longest) {
    if (longest <= 1) return run_structured<K, 1, A>;
    if (longest == 2) return run_structured<K, 2, A>;
    if (longest == 3) return run_structured<K, 3, A>;
    if (longest <= 5) return run_structured<K, 5, A>;
    if (longest <= kLongestMinimum) return run_structured<K, kLongestMinimum, A>;
    return nullptr;
}

template <class A>
StructuredKernel with_stages(int n_stages, int longest) {
    switch (n_stages) {
        case 2: return with_minimum<2, A>(longest);
        case 3: return with_minimum<3, A>(longest);
        case 4: return with_minimum<4, A>(longest);
        case 5: return with_minimum<5, A>(longest);
        case 6: return with_minimum<6, A>(longest);
        case 7: return with_minimum<7, A>(longest);
        case 8: return with_minimum<8, A>(longest);
        default: return nullptr;
    }
}

StructuredKernel structured_kernel(int n_stages, int longest_minimum, bool products) {
    return products ? with_stages<Product>(n_stages, longest_minimum) : with_stages<Logarithmic>(n_stages, longest_minimum);
}

template <int K, int M>
void run_lanes(const BoutRules* rules, Workspace& work, const double* evidence, std::int64_t n_epochs,
               std::int8_t* const* labels, Outcome* outcomes) {
    OneNight<K> night(rules[0], evidence);
    const std::int64_t lengths[kLanes] = {n_epochs, n_epochs, n_epochs, n_epochs};
    StructuredLanes<K, M, OneNight<K>>(rules, work).run(night, lengths, labels, outcomes);
}

template <int K>
LanesKernel lanes_with_minimum(int longest) {
    if (longest <= 1) return run_lanes<K, 1>;
    if (longest <= 3) return run_lanes<K, 3>;
    return longest <= kLongestMinimum ? run_lanes<K, kLongestMinimum> : nullptr;
}

LanesKernel lanes_kernel(int n_stages, int longest) {
    switch (n_stages) {
        case 2: return lanes_with_minimum<2>(longest);
        case 3: return lanes_with_minimum<3>(longest);
        case 4: return lanes_with_minimum<4>(longest);
        case 5: return lanes_with_minimum<5>(longest);
        case 6: return lanes_with_minimum<6>(longest);
        case 7: return lanes_with_minimum<7>(longest);
        case 8: return lanes_with_minimum<8>(longest);
        default: return nullptr;
    }
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

// What most profiles have: up to six stages, and minimum bouts of up to three epochs.
NightsKernel nights_kernel(int n_stages, int longest) {
    switch (longest <= 3 ? n_stages : 0) {
        case 2: return longest <= 1 ? run_nights<2, 1> : run_nights<2, 3>;
        case 3: return longest <= 1 ? run_nights<3, 1> : run_nights<3, 3>;
        case 4: return longest <= 1 ? run_nights<4, 1> : run_nights<4, 3>;
        case 5: return longest <= 1 ? run_nights<5, 1> : run_nights<5, 3>;
        case 6: return longest <= 1 ? run_nights<6, 1> : run_nights<6, 3>;
        default: return nullptr;
    }
}
#endif

template <class P>
void run_automaton(const Automaton* lanes, Workspace& work, const double* evidence, std::int64_t n_epochs,
                   std::int8_t* const* labels, Outcome* outcomes) {
    AutomatonViterbi<P>(lanes, work).run(evidence, n_epochs, labels, outcomes);
}

AutomatonKernel automaton_kernel(bool several) { return several ? run_automaton<Lanes> : run_automaton<PlainPack<1>>; }

ArgmaxKernel argmax_kernel(int n_stages) {
    switch (n_stages) {
        case 2: return argmax<2>;
        case 3: return argmax<3>;
        case 4: return argmax<4>;
        case 5: return argmax<5>;
        case 6: return argmax<6>;
        case 7: return argmax<7>;
        case 8: return argmax<8>;
        default: return nullptr;
    }
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
