#pragma once

#include <cstdint>

namespace dovetail::load {

// The sizes that a configuration may have at all, before they are held against the tensors.
inline constexpr std::uint32_t kMostLayers = 1024;
inline constexpr std::uint32_t kMostExperts = 1024;  // of a layer
inline constexpr std::uint32_t kMostExpertGroups = 64;
inline constexpr std::uint32_t kMostUsedExperts = 64;  // by a token
inline constexpr std::uint32_t kLargestHeadDim = 512;
inline constexpr std::uint32_t kLargestDeltaDim = 256;  // of a key or value with a state
inline constexpr std::uint32_t kLargestLatent = 576;    // with what turns beside it
inline constexpr std::uint32_t kMostHeads = 4096;
inline constexpr std::uint32_t kLargestState = 1024;  // numbers beside each of a head's
inline constexpr std::uint32_t kMostConvolution = 8;  // positions
inline constexpr std::uint32_t kLargestRatio = 1024;  // positions of a compressed entry
inline constexpr std::uint32_t kMostStreams = 16;
inline constexpr std::uint32_t kMostIterations = 1000;
inline constexpr std::uint32_t kLargestHiddenSize = 1U << 18U;
inline constexpr std::uint32_t kLargestIntermediateSize = 1U << 20U;
inline constexpr std::uint32_t kLargestVocabulary = 1U << 24U;
inline constexpr std::uint32_t kLargestContext = 1U << 30U;
inline constexpr float kLargestTheta = 1e15F;
inline constexpr float kLargestFactor = 1e6F;

}  // namespace dovetail::load
