#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <utility>

#include "cores/mutation.h"
#include "cores/tensor_map.h"

namespace dovetail::cores {

// Whether the caller's ends are the last of so many, each of which is counted once. The last caller
// sees what was written before the other ends: each releases that to the next one. Where only the
// caller's ends are left, no other thread writes the number.
inline bool are_last(std::atomic<std::uint32_t>& left, std::uint32_t ends = 1) {
  return left.load(std::memory_order_acquire) == ends ||
         left.fetch_sub(ends, std::memory_order_acq_rel) == ends;
}

// Where parts that start together wait for each other, and where the parts of a block are counted:
// a gate for each block of a mixed task or a gang that is on lanes. One thread at a time is the
// combiner (it holds a lock that all combiners share): it opens gates and closes them. The thread
// of each part calls arrive(), may_start() until that is so, skips() and end_part(), in this order.
class Gates {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // So many at the same time.
  explicit Gates(std::uint32_t gates)
      : gates_(std::make_unique<Gate[]>(gates)), size_(gates), in_use_(gates) {
    for (std::uint32_t gate = 0; gate < size_; ++gate) free(gate);
  }
  // What the other one is at, while no thread uses it.
  Gates(const Gates& other)
      : gates_(std::make_unique<Gate[]>(other.size_)),
        size_(other.size_),
        free_(other.free_),
        in_use_(other.in_use_) {
    for (std::uint32_t gate = 0; gate < size_; ++gate) {
      Gate& to = gates_[gate];
      const Gate& from = other.gates_[gate];
      to.arrived.store(from.arrived.load(std::memory_order_relaxed), std::memory_order_relaxed);
      to.left.store(from.left.load(std::memory_order_relaxed), std::memory_order_relaxed);
      to.expected = from.expected;
      to.skip = from.skip;
      to.start = from.start;
      to.task = from.task;
      to.next_free = from.next_free;
    }
  }
  Gates& operator=(const Gates&) = delete;

  // Combiner: for a block of so many parts. `together`: parts that start at the same time, of the
  // whole gang; 0: each when it likes. `skip`: they are not to run. The first of a gang's
  // blocks has its gate opened before the others, which join it.
  std::uint32_t open(TaskNumber task, std::uint32_t parts, std::uint32_t together, bool skip,
                     bool gang) {
    const std::uint32_t index = take(task, parts);
    Gate& gate = gates_[index];
    // No lane has seen the gate yet: a lane does when it is sent a part.
    if (!mutated(GateMutant::kStaysArrived)) gate.arrived.store(0, std::memory_order_relaxed);
    gate.expected = mutated(GateMutant::kBlockOfItsOwn) && together > 0 ? parts : together;
    gate.skip = skip;
    gate.start = gang ? index : kNone;
    return index;
  }
  // Combiner: for another block of the gang whose first gate is `start`.
  std::uint32_t join(std::uint32_t start, std::uint32_t parts) {
    assert(gates_[start].start == start);
    const std::uint32_t index = take(gates_[start].task, parts);
    gates_[index].start = start;
    return index;
  }

  // A part is on its lane.
  void arrive(std::uint32_t gate) {
    Gate& start = start_of(gate);
    if (start.expected > 0) start.arrived.fetch_add(1, std::memory_order_acq_rel);
  }
  // Whether all that start together have arrived. Holds for ever, and what they did before is seen.
  bool may_start(std::uint32_t gate) const {
    const Gate& start = start_of(gate);
    return start.arrived.load(std::memory_order_acquire) >= start.expected;
  }
  // Whether the run had failed before they started.
  bool skips(std::uint32_t gate) const { return start_of(gate).skip; }
  // A part has ended. True: it was the block's last, and a combiner has to close the gate, once.
  // For the others' threads the gate is gone.
  bool end_part(std::uint32_t gate) {
    return gates_[gate].left.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  // Of a gate that is open.
  TaskNumber task(std::uint32_t gate) const { return gates_[gate].task; }

  // Combiner: all parts of the block have ended. `blocks_left`: of its task, those of which no
  // combiner had heard that they ended. True: the task has ended with it.
  bool close(std::uint32_t gate, std::atomic<std::uint32_t>& blocks_left) {
    const std::uint32_t start = gates_[gate].start;
    // The first one of a gang is looked at by all of its blocks.
    const bool all_look = gate == start && !mutated(GateMutant::kFreesTheFirst);
    if (!all_look) free(gate);
    if (mutated(GateMutant::kFirstBlockEnds)) return true;
    if (blocks_left.fetch_sub(1, std::memory_order_relaxed) > 1) return false;
    if (start != kNone && !mutated(GateMutant::kFreesTheFirst)) free(start);
    return true;
  }

  std::uint32_t size() const { return size_; }
  // Combiner: those that are open.
  std::uint32_t in_use() const { return in_use_; }

 private:
  struct alignas(64) Gate {
    std::atomic<std::uint32_t> arrived{0};  // parts that are on their lanes (of the whole gang)
    std::atomic<std::uint32_t> left{0};     // parts of the block that have not ended
    std::uint32_t expected = 0;             // parts that start together; 0: each when it likes
    bool skip = false;
    std::uint32_t start = kNone;  // of a gang: the gate of its first block, which has the above
    TaskNumber task = 0;
    std::uint32_t next_free = kNone;
  };

  std::uint32_t take(TaskNumber task, std::uint32_t parts) {
    assert(free_ != kNone);
    const std::uint32_t index = std::exchange(free_, gates_[free_].next_free);
    ++in_use_;
    gates_[index].task = task;
    gates_[index].left.store(mutated(GateMutant::kFirstPartEnds) ? 1 : parts,
                             std::memory_order_relaxed);
    return index;
  }
  void free(std::uint32_t gate) {
    gates_[gate].next_free = std::exchange(free_, gate);
    --in_use_;
  }
  Gate& start_of(std::uint32_t gate) const {
    const std::uint32_t start = gates_[gate].start;
    return gates_[start == kNone ? gate : start];
  }

  std::unique_ptr<Gate[]> gates_;
  std::uint32_t size_ = 0;
  std::uint32_t free_ = kNone;
  std::uint32_t in_use_ = 0;
};

}  // namespace dovetail::cores
