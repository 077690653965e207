// The two number systems a path score can be kept in: logarithms, and plain products with their exponent set aside.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "pack.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// Kept out of line, once: unrolled over stages and slots, or copied for each caller, code would fill the binary.
#if defined(__clang__)
#define STAGEGUARD_APART __attribute__((noinline))
#elif defined(__GNUC__)
#define STAGEGUARD_APART __attribute__((noinline, noclone))
#else
#define STAGEGUARD_APART
#endif

// log(exp(a) + exp(b)), also where either is log 0.
STAGEGUARD_APART inline double log_add(double a, double b) {
    const double top = larger(a, b), low = a > b ? b : a;
    return top > kImpossibleScore ? top + std::log1p(std::exp(low - top)) : top;
}

// Evidence is clipped here before anything multiplies it, so that 0 * -inf never arises.
constexpr double kClip = 1e-12;

// Scores are log-probabilities; evidence rows are log-evidence, ready to add.
struct Logarithmic {
    static constexpr double impossible = kImpossibleScore, certain = 0.0;
    static constexpr bool rescales = false;
    template <class T>
    static T combine(T a, T b) {
        return a + b;
    }
    // For sums over paths: two ways taken together, a score as a probability.
    static double add(double a, double b) { return log_add(a, b); }
    static double probability(double log_probability) { return std::exp(log_probability); }
    static double inverse(double whole) { return -whole; }
    template <class P>
    static P evidence(P row, P) {
        return row;
    }
    static double log_score(double score, std::int64_t) { return score; }
    static double of_nats(double nats) { return nats; }
};

// Scores are products of probabilities; evidence rows are probabilities, renormalised, clipped and weighted on the way in.
struct Product {
    static constexpr double impossible = 0.0, certain = 1.0;
    static constexpr bool rescales = true;
    template <class T>
    static T combine(T a, T b) {
        return a * b;
    }
    static double add(double a, double b) { return a + b; }
    static double probability(double value) { return value; }
    static double inverse(double whole) { return 1.0 / whole; }
    template <class P>
    static P evidence(P row, P weight) {
        return larger(row * P::all(1.0 / row.sum()), P::all(kClip)) * weight;
    }
    static double of_nats(double nats) { return std::exp(nats); }
    static double log_score(double score, std::int64_t exponent) {
        return std::log(score) + static_cast<double>(exponent) * 0.6931471805599453;
    }
};

// The power of two that brings a positive, normal number into [1, 2), and the exponent that was taken out.
inline double unit_scale(double value, std::int64_t& exponent) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    const std::int64_t e = static_cast<std::int64_t>((bits >> 52) & 0x7ff) - 1023;
    exponent += e;
    const std::uint64_t scale_bits = static_cast<std::uint64_t>(1023 - e) << 52;
    double scale;
    std::memcpy(&scale, &scale_bits, sizeof scale);
    return scale;
}

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
