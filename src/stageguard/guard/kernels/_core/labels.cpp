#include "labels.hpp"

#include <algorithm>

namespace stageguard {

// Counted in bytes, sixteen of which go into one register.
std::int64_t n_differing(const std::int8_t* a, const std::int8_t* b, std::int64_t n) {
    constexpr std::int64_t kMost = 255;  // of a byte
    std::int64_t total = 0;
    for (std::int64_t begin = 0; begin < n; begin += kMost) {
        const std::int64_t end = std::min(n, begin + kMost);
        std::uint8_t differing = 0;
        for (std::int64_t t = begin; t < end; ++t) differing = static_cast<std::uint8_t>(differing + (a[t] != b[t]));
        total += differing;
    }
    return total;
}

}  // namespace stageguard
