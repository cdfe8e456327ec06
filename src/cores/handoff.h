#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <optional>
#include <thread>

#include "cores/mutation.h"
#include "cores/ready_ring.h"

namespace dovetail::cores {

// The only ready task of a single lane. Idle lanes take its blocks, and the lane that makes the
// next task ready puts that one in its place, both without a lock, by one word that the threads
// share. Several ready tasks are in a ReadyRing, which lanes read after this.
//
// The word is the whole state, so a compare-and-swap that succeeds is right even where the word has
// had other values since it was read. The thread that takes a block sees what was done before
// offer(): claims in between are read-modify-writes, which carry that on.
class Handoff {
 public:
  static constexpr std::uint64_t kMaxTasks = std::uint64_t{1} << 23;  // numbers are lower

  // Any thread: the task's blocks but the first, which is the caller's, may be taken from now on.
  // False: blocks of another task are left, or it is closed.
  bool offer(std::uint64_t task, std::uint32_t blocks) {
    assert(task < kMaxTasks && blocks > 1 && blocks <= ReadyRing::kMaxBlocks);
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    if ((word & kClosed) != 0 || left(word) > 0) return false;
    return word_.compare_exchange_strong(
        word, task << 2 * kBlockBits | std::uint64_t{mutated_blocks(blocks)} << kBlockBits | 1,
        std::memory_order_seq_cst, std::memory_order_relaxed);
  }

  // Any thread: the next block; of this task.
  std::optional<ReadyRing::Claim> take() {
    return take_if([](std::uint64_t) { return true; });
  }
  std::optional<ReadyRing::Claim> take_of(std::uint64_t task) {
    return take_if([task](std::uint64_t word) { return task_of(word) == task; });
  }

  // Any thread: whether there is something to take.
  bool has_work() const {
    const std::uint64_t word = word_.load(std::memory_order_seq_cst);
    return (word & kClosed) == 0 && left(word) > 0;
  }
  // Blocks, whether it is closed or not.
  std::uint32_t blocks() const { return left(word_.load(std::memory_order_seq_cst)); }

  // The task that has them.
  std::optional<std::uint64_t> front() const {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    return left(word) > 0 ? std::optional(task_of(word)) : std::nullopt;
  }

  // For the combiner of the rings. While it is closed no other thread takes or offers.
  void close() { word_.fetch_or(kClosed, std::memory_order_acq_rel); }
  void open() { word_.fetch_and(~kClosed, std::memory_order_acq_rel); }
  // While it is closed: the task, `block` being the first that is left of it.
  std::optional<ReadyRing::Claim> take_rest() {
    const std::uint64_t word = word_.load(std::memory_order_acquire);
    assert((word & kClosed) != 0);
    if (left(word) == 0) return std::nullopt;
    word_.store(word + left(word), std::memory_order_release);
    return ReadyRing::Claim{task_of(word), next_of(word)};
  }

 private:
  // From above: whether it is closed, the task, how many blocks it has, the next one.
  static constexpr unsigned kBlockBits = 20;
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;
  static_assert(ReadyRing::kMaxBlocks < std::uint64_t{1} << kBlockBits);

  static std::uint64_t task_of(std::uint64_t word) { return (word & ~kClosed) >> 2 * kBlockBits; }
  static std::uint32_t next_of(std::uint64_t word) {
    return static_cast<std::uint32_t>(word & ReadyRing::kMaxBlocks);
  }
  static std::uint32_t left(std::uint64_t word) {
    return next_of(word >> kBlockBits) - next_of(word);
  }

  template <class Wanted>
  std::optional<ReadyRing::Claim> take_if(Wanted wanted) {
    std::uint64_t word = word_.load(std::memory_order_acquire);
    while ((word & kClosed) == 0 && left(word) > 0 && wanted(word)) {
      if (mutated(ClaimMutant::kTwoSteps)) {
        std::this_thread::yield();
        word_.store(word + 1, std::memory_order_seq_cst);
        return ReadyRing::Claim{task_of(word), next_of(word)};
      }
      if (word_.compare_exchange_weak(word, word + 1, std::memory_order_seq_cst,
                                      std::memory_order_acquire)) {
        return ReadyRing::Claim{task_of(word), next_of(word)};
      }
    }
    return std::nullopt;
  }

  alignas(64) std::atomic<std::uint64_t> word_{0};
};

}  // namespace dovetail::cores
