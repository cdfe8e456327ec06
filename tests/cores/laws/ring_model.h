#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cores/output_ring.h"

namespace dovetail::cores {

// What a program does to the ring of outputs.
struct RingStep {
  enum class Kind : std::uint8_t {
    kNext,   // the next task is in; `amount` of those that are in have ended by then
    kAsk,    // the task to come asks for `amount` bytes
    kScope,  // begins where none is open, else ends
  };
  Kind kind = Kind::kAsk;
  std::uint64_t amount = 0;
};

// Where the ring does something else than a list of intervals that is searched from end to end
// would, or breaks its promises; nothing: nowhere.
std::optional<std::string> ring_fault(const OutputRingOptions& options,
                                      std::span<const RingStep> steps);

// A ring and steps, drawn by a seed.
struct RingHistory {
  OutputRingOptions options;
  std::vector<RingStep> steps;
};
RingHistory random_ring_history(std::uint64_t seed);

}  // namespace dovetail::cores
