// Four rows of probabilities at once, a lane each: the best stage of each, and whether each is a distribution.
#pragma once

#include <cmath>
#include <cstdint>

#include "pack.hpp"
#include "rules.hpp"

namespace stageguard {
namespace STAGEGUARD_VARIANT {

constexpr double kSumTolerance = 1e-3;  // how far from 1 a row may sum
constexpr double kRounding = 1e-9;      // how far below 0 rounding may put a probability

#if defined(__AVX2__)
using Lanes = AvxPack<kLanes>;
constexpr bool kHasAvx2 = true;

template <int K>
class FourRows {
  public:
    // Reads a row of each lane, stage by stage.
    void load(const double* a, const double* b, const double* c, const double* d) {
        STAGEGUARD_UNROLL
        for (int s = 0; s + 4 <= K; s += 4) {
            const __m256d r0 = _mm256_loadu_pd(a + s), r1 = _mm256_loadu_pd(b + s), r2 = _mm256_loadu_pd(c + s), r3 = _mm256_loadu_pd(d + s);
            const __m256d low01 = _mm256_unpacklo_pd(r0, r1), high01 = _mm256_unpackhi_pd(r0, r1);
            const __m256d low23 = _mm256_unpacklo_pd(r2, r3), high23 = _mm256_unpackhi_pd(r2, r3);
            x[s].x[0] = _mm256_permute2f128_pd(low01, low23, 0x20), x[s + 1].x[0] = _mm256_permute2f128_pd(high01, high23, 0x20);
            x[s + 2].x[0] = _mm256_permute2f128_pd(low01, low23, 0x31), x[s + 3].x[0] = _mm256_permute2f128_pd(high01, high23, 0x31);
        }
        STAGEGUARD_UNROLL
        for (int s = K - K % 4; s < K; ++s) x[s].x[0] = _mm256_set_pd(d[s], c[s], b[s], a[s]);
    }

    // The first of the best stages of each lane, as four bytes. Takes the sums, and keeps what tells a distribution.
    std::int32_t best() {
        Lanes most = x[0], least = smaller(least_, x[0]);
        __m256d stage = _mm256_setzero_pd();
        sum = x[0];
        STAGEGUARD_UNROLL
        for (int s = 1; s < K; ++s) {
            stage = _mm256_blendv_pd(stage, _mm256_set1_pd(s), _mm256_cmp_pd(x[s].x[0], most.x[0], _CMP_GT_OQ));
            most = larger(x[s], most);
            sum = sum + x[s];
            least = smaller(least, x[s]);
        }
        least_ = least;
        total_ = total_ + sum;
        const __m256d off = _mm256_andnot_pd(_mm256_set1_pd(-0.0), _mm256_sub_pd(sum.x[0], _mm256_set1_pd(1.0)));
        farthest_.x[0] = _mm256_max_pd(off, farthest_.x[0]);
        const __m128i bytes = _mm_set_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 12, 8, 4, 0);
        return _mm_cvtsi128_si32(_mm_shuffle_epi8(_mm256_cvttpd_epi32(stage), bytes));
    }

    // Whether some row of a lane was not a distribution. NaN loses every comparison, but sticks in the total.
    void bad_rows(bool* bad) const {
        double least[kLanes], total[kLanes], farthest[kLanes];
        least_.store(least), total_.store(total), farthest_.store(farthest);
        for (int lane = 0; lane < kLanes; ++lane)
            bad[lane] = farthest[lane] > kSumTolerance || std::isnan(total[lane]) || least[lane] < -kRounding;
    }

    Lanes x[K], sum;  // of the rows that were loaded last

  private:
    static Lanes smaller(Lanes a, Lanes b) {  // a where b is NaN
        a.x[0] = _mm256_min_pd(b.x[0], a.x[0]);
        return a;
    }

    Lanes least_ = Lanes::all(0.0), total_ = Lanes::all(0.0), farthest_ = Lanes::all(0.0);
};
#else
using Lanes = PlainPack<kLanes>;
constexpr bool kHasAvx2 = false;
#endif

}  // namespace STAGEGUARD_VARIANT
}  // namespace stageguard
