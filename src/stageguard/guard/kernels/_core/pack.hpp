// One number per stage, computed on together: AVX2 registers where the compiler may use them, a plain array elsewhere.
// Both do the same operations in the same order, so both give the same bytes.
#pragma once

#include <cstdint>
#include <type_traits>

#include "rules.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

// Unrolled, scores stay in registers from epoch to epoch; what few processors run is compiled small instead.
#if defined(STAGEGUARD_SMALL)
#define STAGEGUARD_UNROLL
#elif defined(__clang__)
#define STAGEGUARD_UNROLL _Pragma("unroll")
#elif defined(__GNUC__)
#define STAGEGUARD_UNROLL _Pragma("GCC unroll 8")
#else
#define STAGEGUARD_UNROLL
#endif

namespace stageguard {
namespace STAGEGUARD_VARIANT {

// Written so that it compiles to one instruction (std::max has a rule for NaN that nobody needs here).
inline double larger(double a, double b) { return a > b ? a : b; }

template <int K>
struct PlainPack {
    static constexpr int kStride = K;
    struct Mask {
        bool x[K];  // the same every epoch, so the branches on it are always guessed right
        explicit Mask(const bool* set) {
            for (int s = 0; s < K; ++s) x[s] = set[s];
        }
    };
    double x[K];

    static PlainPack load(const double* p) {
        PlainPack r;
        for (int s = 0; s < K; ++s) r.x[s] = p[s];
        return r;
    }
    static PlainPack stored(const double* p) { return load(p); }  // kStride numbers
    static PlainPack all(double value) {
        PlainPack r;
        for (int s = 0; s < K; ++s) r.x[s] = value;
        return r;
    }
    void store(double* p) const {  // kStride numbers
        for (int s = 0; s < K; ++s) p[s] = x[s];
    }
    void save(double* p) const { store(p); }  // K numbers and no more
    // `p` is where the pack was stored last, for implementations that read it back instead.
    PlainPack spread(int stage, const double*) const { return all(x[stage]); }
    double top() const {
        double best = x[0];
        for (int s = 1; s < K; ++s) best = larger(x[s], best);
        return best;
    }
    double sum() const {
        double total = x[0];
        for (int s = 1; s < K; ++s) total += x[s];
        return total;
    }
};

template <int K>
inline PlainPack<K> operator+(PlainPack<K> a, PlainPack<K> b) {
    for (int s = 0; s < K; ++s) a.x[s] += b.x[s];
    return a;
}
template <int K>
inline PlainPack<K> operator*(PlainPack<K> a, PlainPack<K> b) {
    for (int s = 0; s < K; ++s) a.x[s] *= b.x[s];
    return a;
}
template <int K>
inline PlainPack<K> operator/(PlainPack<K> a, PlainPack<K> b) {
    for (int s = 0; s < K; ++s) a.x[s] /= b.x[s];
    return a;
}
template <int K>
inline PlainPack<K> larger(PlainPack<K> a, PlainPack<K> b) {
    for (int s = 0; s < K; ++s) a.x[s] = larger(a.x[s], b.x[s]);
    return a;
}
// a where the mask is set, else b
template <int K>
inline PlainPack<K> choose(const typename PlainPack<K>::Mask& mask, PlainPack<K> a, PlainPack<K> b) {
    for (int s = 0; s < K; ++s)
        if (!mask.x[s]) a.x[s] = b.x[s];
    return a;
}
// x where a > b, else y
template <int K>
inline PlainPack<K> where_more(PlainPack<K> a, PlainPack<K> b, PlainPack<K> x, PlainPack<K> y) {
    for (int s = 0; s < K; ++s) y.x[s] = a.x[s] > b.x[s] ? x.x[s] : y.x[s];
    return y;
}
// bit s: a >= b
template <int K>
inline unsigned at_least(PlainPack<K> a, PlainPack<K> b) {
    unsigned bits = 0;
    for (int s = 0; s < K; ++s) bits |= static_cast<unsigned>(a.x[s] >= b.x[s]) << s;
    return bits;
}

#if defined(__AVX2__)

// Four lanes a register; lanes beyond K hold the value of `all`, or zero after a load, and are never looked at.
template <int K>
struct AvxPack {
    static constexpr int kRegisters = (K + 3) / 4;
    static constexpr int kStride = 4 * kRegisters;
    struct Mask {
        __m256d x[kRegisters];
        explicit Mask(const bool* set) {
            alignas(32) std::int64_t lane[kStride] = {};
            for (int s = 0; s < K; ++s) lane[s] = set[s] ? -1 : 0;
            for (int i = 0; i < kRegisters; ++i)
                x[i] = _mm256_castsi256_pd(_mm256_load_si256(reinterpret_cast<const __m256i*>(lane + 4 * i)));
        }
    };
    __m256d x[kRegisters];

    static __m256i lanes(int i) {
        const int n = K - 4 * i;
        return _mm256_set_epi64x(n > 3 ? -1 : 0, n > 2 ? -1 : 0, n > 1 ? -1 : 0, -1);
    }
    static AvxPack load(const double* p) {
        AvxPack r;
        for (int i = 0; i < kRegisters; ++i)
            r.x[i] = K - 4 * i >= 4 ? _mm256_loadu_pd(p + 4 * i) : _mm256_maskload_pd(p + 4 * i, lanes(i));
        return r;
    }
    static AvxPack stored(const double* p) {  // kStride numbers
        AvxPack r;
        for (int i = 0; i < kRegisters; ++i) r.x[i] = _mm256_loadu_pd(p + 4 * i);
        return r;
    }
    static AvxPack all(double value) {
        AvxPack r;
        for (int i = 0; i < kRegisters; ++i) r.x[i] = _mm256_set1_pd(value);
        return r;
    }
    void store(double* p) const {  // kStride numbers
        for (int i = 0; i < kRegisters; ++i) _mm256_storeu_pd(p + 4 * i, x[i]);
    }
    void save(double* p) const {  // K numbers and no more
        for (int i = 0; i < kRegisters; ++i) {
            const int n = K - 4 * i;
            const __m128d low = _mm256_castpd256_pd128(x[i]);
            if (n >= 4) _mm256_storeu_pd(p + 4 * i, x[i]);
            if (n == 2 || n == 3) _mm_storeu_pd(p + 4 * i, low);
            if (n == 1) _mm_store_sd(p + 4 * i, low);
            if (n == 3) _mm_store_sd(p + 4 * i + 2, _mm256_extractf128_pd(x[i], 1));
        }
    }
    AvxPack spread(int stage, const double* p) const { return all(p[stage]); }
    double top() const {
        alignas(32) double lane[kStride];
        store(lane);
        double best = lane[0];
        for (int s = 1; s < K; ++s) best = larger(lane[s], best);
        return best;
    }
    double sum() const {
        alignas(32) double lane[kStride];
        store(lane);
        double total = lane[0];
        for (int s = 1; s < K; ++s) total += lane[s];
        return total;
    }
};

template <int K>
inline AvxPack<K> operator+(AvxPack<K> a, AvxPack<K> b) {
    for (int i = 0; i < AvxPack<K>::kRegisters; ++i) a.x[i] = _mm256_add_pd(a.x[i], b.x[i]);
    return a;
}
template <int K>
inline AvxPack<K> operator*(AvxPack<K> a, AvxPack<K> b) {
    for (int i = 0; i < AvxPack<K>::kRegisters; ++i) a.x[i] = _mm256_mul_pd(a.x[i], b.x[i]);
    return a;
}
template <int K>
inline AvxPack<K> operator/(AvxPack<K> a, AvxPack<K> b) {
    for (int i = 0; i < AvxPack<K>::kRegisters; ++i) a.x[i] = _mm256_div_pd(a.x[i], b.x[i]);
    return a;
}
template <int K>
inline AvxPack<K> larger(AvxPack<K> a, AvxPack<K> b) {
    for (int i = 0; i < AvxPack<K>::kRegisters; ++i) a.x[i] = _mm256_max_pd(a.x[i], b.x[i]);
    return a;
}
template <int K>
inline AvxPack<K> choose(const typename AvxPack<K>::Mask& mask, AvxPack<K> a, AvxPack<K> b) {
    for (int i = 0; i < AvxPack<K>::kRegisters; ++i) a.x[i] = _mm256_blendv_pd(b.x[i], a.x[i], mask.x[i]);
    return a;
}
template <int K>
inline AvxPack<K> where_more(AvxPack<K> a, AvxPack<K> b, AvxPack<K> x, AvxPack<K> y) {
    for (int i = 0; i < AvxPack<K>::kRegisters; ++i)
        y.x[i] = _mm256_blendv_pd(y.x[i], x.x[i], _mm256_cmp_pd(a.x[i], b.x[i], _CMP_GT_OQ));
    return y;
}
template <int K>
inline unsigned at_least(AvxPack<K> a, AvxPack<K> b) {
    unsigned bits = 0;
    for (int i = 0; i < AvxPack<K>::kRegisters; ++i)
        bits |= static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(a.x[i], b.x[i], _CMP_GE_OQ))) << (4 * i);
    return bits;
}

// Up to three stages fit in scalar registers, where a recurrence has less latency.
template <int K>
using Pack = std::conditional_t<(K > 3), AvxPack<K>, PlainPack<K>>;
using Lanes = AvxPack<kLanes>;
#else
template <int K>
using Pack = PlainPack<K>;
using Lanes = PlainPack<kLanes>;
#endif

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
