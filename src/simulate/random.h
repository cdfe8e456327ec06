#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace dovetail::simulate {

// Random numbers that are the same on every machine (SplitMix64; Steele, Lea, Flood 2014), which
// the standard library's distributions are not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t x = (state_ += 0x9e3779b97f4a7c15ULL);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // In [0, end).
  std::uint32_t below(std::uint32_t end) {
    return static_cast<std::uint32_t>(((next() >> 32) * end) >> 32);
  }
  // Mean 0, deviation 1 (Box and Muller).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

}  // namespace dovetail::simulate
