// Uniform numbers from a seed, the same on every machine: SplitMix64 (Steele, Lea, Flood 2014), 53 bits a number.
#pragma once

#include <cstdint>

namespace stageguard {

class Uniforms {
  public:
    explicit Uniforms(std::uint64_t seed) : state_(seed) {}

    // In [0, 1).
    double next() {
        std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        z ^= z >> 31;
        return static_cast<double>(z >> 11) * 0x1p-53;
    }

  private:
    std::uint64_t state_;
};

}  // namespace stageguard
