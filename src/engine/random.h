#pragma once

#include <cstdint>

namespace dovetail::engine {

// A number in [0, 1) that is a function of its three arguments alone: the random stream of a choice
// does not depend on who is decoded beside it. The mixing function is SplitMix64's (Steele, Lea,
// Flood: "Fast splittable pseudorandom number generators", 2014).
inline double uniform(std::uint64_t seed, std::uint64_t choice, std::uint64_t position) {
  const auto mix = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  };
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  const std::uint64_t stream = mix(mix(seed + kStep) + (choice + 1) * kStep);
  return static_cast<double>(mix(stream + (position + 1) * kStep) >> 11) * 0x1.0p-53;
}

}  // namespace dovetail::engine
