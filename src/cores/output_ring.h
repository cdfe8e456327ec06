#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cores/tensor_map.h"

namespace dovetail::cores {

struct OutputRingOptions {
  std::uint64_t bytes = std::uint64_t{256} << 20;  // a multiple of the alignment
  std::uint64_t alignment = 1024;                  // a power of two
  std::uint32_t tasks = 16'384;                    // that hold a part of it
};

// Which bytes of a buffer hold the output of which tasks: a ring of offsets, without the memory.
// Each request gets bytes that lie together and never on both sides of the end; what is left before
// the end is a gap until the oldest task has moved on past it. Bytes are given up in the order of
// the tasks, and where all are, the ring begins again at 0, so that a request as large as it is
// always fits then. All memory is taken at the start. One thread.
class OutputRing {
 public:
  // kInvalid: an option that cannot be, by its name.
  static Status check(const OutputRingOptions& options);

  // Requires check().
  explicit OutputRing(const OutputRingOptions& options);

  // The offset of `bytes` bytes for a task that is no older than the task of the last call; a task
  // may ask several times. `held_from`: the first task that keeps its output for sure until the
  // caller goes on, TaskGraph::held_from(). kExhausted: there is no room before older tasks are
  // given up; nothing has changed, ask again then. kInvalid: there will never be room: the message
  // names the option and the tasks that hold the bytes.
  Result<std::uint64_t> allocate(TaskNumber task, std::uint64_t bytes, TaskNumber held_from);

  // What tasks before this one hold is free again, as TaskGraph::oldest() says.
  void give_up_before(TaskNumber oldest);

  std::uint64_t capacity() const { return options_.bytes; }
  // Bytes that allocate() cannot give out now: outputs, what alignment adds to them, and the gap.
  std::uint64_t used() const;
  // Before the end, where the last request that went back to 0 did not fit; a part of used().
  std::uint64_t gap() const;

  // The most that was ever in use.
  struct HighWater {
    std::uint64_t bytes = 0;
    std::uint32_t tasks = 0;
  };
  const HighWater& high_water() const { return high_water_; }

 private:
  // What a task holds, from the first byte of its first request on.
  struct Held {
    TaskNumber task = 0;
    std::uint64_t begin = 0;
  };

  const Held& oldest(std::uint32_t index) const { return held_[(first_ + index) % held_.size()]; }
  bool place(std::uint64_t bytes, std::uint64_t tail, bool empty, std::uint64_t& begin) const;
  tl::unexpected<Error> refuse(TaskNumber task, std::uint64_t bytes, TaskNumber held_from,
                               bool is_new) const;

  OutputRingOptions options_;
  std::vector<Held> held_;  // a ring, by age
  std::uint32_t first_ = 0, count_ = 0;
  // Held bytes are those from the oldest's begin up to the head; where the head has gone back to 0,
  // those up to the wrap and those before the head. Head and tail in one place: the ring is full.
  std::uint64_t head_ = 0;
  std::uint64_t wrap_ = 0;  // where the head was when it last went back
  HighWater high_water_;
};

}  // namespace dovetail::cores
