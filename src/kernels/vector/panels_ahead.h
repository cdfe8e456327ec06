#pragma once

#include <cstddef>
#include <cstdint>

namespace dovetail::kernels {
namespace {

// What the memory is asked for while tiles multiply: the panels of weights behind those that they
// have. The CPU's own prefetchers stop at the ends of pages and follow a panel's codes and scales
// one block at a time, so that a core alone gets half of the memory's bandwidth. All of it asked at
// once would fill the buffers of outstanding reads, and a tile would wait.
class PanelsAhead {
 public:
  // What one tile asks for, little by little.
  class Part {
   public:
    // Nothing.
    Part() = default;
    Part(const std::uint8_t* at, std::size_t lines, std::size_t of_step)
        : at_(at), left_(lines), of_step_(of_step) {}

    void step() {
      const std::size_t some = left_ < of_step_ ? left_ : of_step_;
      left_ -= some;
      // To the second-level cache: there are panels that the first one does not hold.
      for (std::size_t i = 0; i < some; ++i, at_ += 64) __builtin_prefetch(at_, 0, 2);
    }

   private:
    const std::uint8_t* at_ = nullptr;
    std::size_t left_ = 0, of_step_ = 0;
  };

  // The `bytes` bytes at `from`, for so many passes over other panels, of so many steps each.
  PanelsAhead(const std::uint8_t* from, std::size_t bytes, std::size_t passes, std::size_t steps)
      : from_(from), lines_((bytes + 63) / 64) {
    if (lines_ == 0) return;
    of_pass_ = (lines_ + passes - 1) / passes;
    of_step_ = (of_pass_ + steps - 1) / steps;
  }

  // That of a pass's tile `tile` of kTiles, which is to make it: an argument would be copied by way
  // of the memory, and that copy waits until all that was stored before, outputs too, has left.
  template <std::size_t kTiles>
  [[gnu::always_inline]] Part part(std::size_t pass, std::size_t tile) const {
    const std::size_t begin = pass * of_pass_ + of_pass_ * tile / kTiles;
    const std::size_t end = pass * of_pass_ + of_pass_ * (tile + 1) / kTiles;
    const std::size_t last = end < lines_ ? end : lines_;
    return {from_ + begin * 64, begin < last ? last - begin : 0, (of_step_ + kTiles - 1) / kTiles};
  }

 private:
  const std::uint8_t* from_;
  std::size_t lines_, of_pass_ = 0, of_step_ = 0;
};

}  // namespace
}  // namespace dovetail::kernels
