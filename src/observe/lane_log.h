#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dovetail::observe {

// What a slice says of its lane.
enum class LaneTrack : std::uint8_t {
  kRunning,
  kParked,  // in its pending slot, behind what it runs
  kKept,    // idle, for a task that waits for other lanes of its group, too
};

// What a lane was at for a step: a block of a task; where it was kept, of none.
struct LaneSlice {
  std::int64_t start = 0, end = 0;  // nanoseconds, as Event::time
  const char* task = "";            // static storage
  std::int32_t layer = -1;          // -1: of none
  std::uint32_t tile = 0, block = 0;
  std::uint32_t lane = 0;
  LaneTrack track = LaneTrack::kRunning;
};

// The last slices of a run; older ones are overwritten. One thread at a time.
class LaneLog {
 public:
  // Keeps so many, at least one; memory is taken as they come.
  explicit LaneLog(std::size_t capacity) : capacity_(capacity) {}

  void write(const LaneSlice& slice) {
    if (ring_.size() < capacity_) {
      ring_.push_back(slice);
    } else {
      ring_[written_ % capacity_] = slice;
    }
    ++written_;
  }

  // What is still here, in no order.
  const std::vector<LaneSlice>& slices() const { return ring_; }

 private:
  std::size_t capacity_;
  std::vector<LaneSlice> ring_;
  std::size_t written_ = 0;
};

}  // namespace dovetail::observe
