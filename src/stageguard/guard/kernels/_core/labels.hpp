// Two hypnograms side by side.
#pragma once

#include <cstdint>

namespace stageguard {

// In how many of n epochs two rows of labels differ.
std::int64_t n_differing(const std::int8_t* a, const std::int8_t* b, std::int64_t n);

}  // namespace stageguard
