#pragma once

#include <cstddef>
#include <cstdint>

namespace dovetail::kernels {
namespace {

// What the memory is asked for while a tile multiplies: the panels of weights behind those that it
// has. The CPU's own prefetchers stop at the ends of pages and follow a panel's codes and scales
// one block at a time, so that a core alone gets half of the memory's bandwidth. All of it asked at
// once would fill the buffers of outstanding reads, and the tile would wait.
class PanelsAhead {
 public:
  // Nothing.
  PanelsAhead() = default;
  // Part `part` of `parts` of the `bytes` bytes at `from`, within `steps` steps.
  PanelsAhead(const std::uint8_t* from, std::size_t bytes, std::size_t part, std::size_t parts,
              std::size_t steps) {
    if (bytes == 0) return;
    const std::size_t lines = (bytes + 63) / 64;
    const std::size_t first = lines * part / parts, end = lines * (part + 1) / parts;
    at_ = from + first * 64;
    left_ = end - first;
    of_step_ = (left_ + steps - 1) / steps;
  }

  void step() {
    const std::size_t some = left_ < of_step_ ? left_ : of_step_;
    left_ -= some;
    // To the second-level cache: there are panels that the first one does not hold.
    for (std::size_t i = 0; i < some; ++i, at_ += 64) __builtin_prefetch(at_, 0, 2);
  }

 private:
  const std::uint8_t* at_ = nullptr;
  std::size_t left_ = 0, of_step_ = 0;  // lines
};

}  // namespace
}  // namespace dovetail::kernels
