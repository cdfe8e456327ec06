#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>

#include "cores/mutation.h"

namespace dovetail::cores {

// Ready tasks of a single lane, first in first out, whose blocks idle lanes take by themselves. One
// thread at a time is its combiner (it holds a lock that all combiners share): it pushes,
// publishes, closes and opens. Any thread takes, without a lock.
class ReadyRing {
 public:
  static constexpr std::uint32_t kMaxBlocks = (1U << 20) - 1;  // of a task

  struct Claim {
    std::uint64_t task = 0;
    std::uint32_t block = 0;
  };

  // Room for so many tasks at the same time: a power of two.
  explicit ReadyRing(std::uint32_t tasks)
      : mask_(tasks - 1), entries_(std::make_unique<Entry[]>(tasks)) {
    assert(tasks > 0 && (tasks & mask_) == 0);
  }

  // Combiner. `order`: of the rings that share a combiner, whose front is older.
  void push(std::uint64_t task, std::uint32_t blocks, std::uint64_t order) {
    assert(blocks > 0 && blocks <= kMaxBlocks);
    assert(((pushed_ - index_of(head_.load(std::memory_order_relaxed))) & kIndexMask) <= mask_);
    Entry& entry = entries_[pushed_ & mask_];
    entry.task.store(task, std::memory_order_relaxed);
    entry.order.store(order, std::memory_order_relaxed);
    entry.blocks.store(mutated_blocks(blocks), std::memory_order_relaxed);
    pushed_ = next(pushed_);
    // Takers have read the line that is written soon.
    __builtin_prefetch(&entries_[(pushed_ + kAhead) & mask_], 1);
  }
  // Combiner: what was pushed may be taken from now on.
  void publish() {
    if (published_.load(std::memory_order_relaxed) != pushed_) {
      published_.store(pushed_, std::memory_order_seq_cst);
    }
  }
  // Combiner: tasks that were pushed since publish(), also those that it has taken itself.
  std::uint64_t unpublished() const {
    return (pushed_ - published_.load(std::memory_order_relaxed)) & kIndexMask;
  }

  // Combiner. While it is closed only the combiner takes.
  void close() { head_.fetch_or(kClosed, std::memory_order_acq_rel); }
  // Requires that all is published.
  void open() {
    assert(published_.load(std::memory_order_relaxed) == pushed_);
    head_.fetch_and(~kClosed, std::memory_order_acq_rel);
  }
  // Any thread: whether it was closed a moment ago; the combiner's answer holds until it opens it.
  bool closed() const { return (head_.load(std::memory_order_acquire) & kClosed) != 0; }

  // Any thread: whether there is something to take.
  bool has_work() const {
    const std::uint64_t head = head_.load(std::memory_order_seq_cst);
    return (head & kClosed) == 0 &&
           is_before(index_of(head), published_.load(std::memory_order_seq_cst));
  }
  // Any thread: whether the thread that makes a task ready may go on with it, since nothing that
  // can be taken is older.
  bool is_drained() const {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    return (head & kClosed) == 0 &&
           !is_before(index_of(head), published_.load(std::memory_order_acquire));
  }

  // Any thread: the order of the oldest task; nothing: there is none to take.
  std::optional<std::uint64_t> front() const {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    if ((head & kClosed) != 0) return std::nullopt;
    if (!is_before(index_of(head), published_.load(std::memory_order_acquire))) return std::nullopt;
    return entries_[index_of(head) & mask_].order.load(std::memory_order_relaxed);
  }

  // Any thread: the next block of the oldest task.
  std::optional<Claim> take() {
    std::uint64_t head = head_.load(std::memory_order_acquire);
    for (;;) {
      if ((head & kClosed) != 0) return std::nullopt;
      const std::uint64_t index = index_of(head);
      if (!is_before(index, published_.load(std::memory_order_acquire))) return std::nullopt;
      // Whatever another thread makes of the entry meanwhile, the head will have moved by then.
      const Entry& entry = entries_[index & mask_];
      const Claim claim = {entry.task.load(std::memory_order_relaxed), block_of(head)};
      const bool last = claim.block + 1 >= entry.blocks.load(std::memory_order_relaxed);
      const std::uint64_t after = last ? next(index) << kBlockBits : head + 1;
      if (mutated(ClaimMutant::kTwoSteps)) {
        std::this_thread::yield();
        head_.store(after, std::memory_order_seq_cst);
        return claim;
      }
      if (head_.compare_exchange_weak(head, after, std::memory_order_seq_cst,
                                      std::memory_order_acquire)) {
        return claim;
      }
    }
  }

  // Any thread: a task that is to be taken soon, if there are many; what it is about can be fetched
  // already.
  std::optional<std::uint64_t> soon() const {
    const std::uint64_t index = index_of(head_.load(std::memory_order_relaxed));
    if (((published_.load(std::memory_order_relaxed) - index) & kIndexMask) <= kAhead) {
      return std::nullopt;
    }
    return entries_[(index + kAhead) & mask_].task.load(std::memory_order_relaxed);
  }

  // Combiner, while it is closed: the oldest task whole, `block` being the first that is left of
  // it.
  std::optional<Claim> take_rest() {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    assert((head & kClosed) != 0);
    const std::uint64_t index = index_of(head);
    if (index == pushed_) return std::nullopt;
    head_.store(kClosed | next(index) << kBlockBits, std::memory_order_release);
    return Claim{entries_[index & mask_].task.load(std::memory_order_relaxed), block_of(head)};
  }

  // Combiner: the order of the oldest task that has blocks left, published or not.
  std::optional<std::uint64_t> oldest() const {
    const std::uint64_t index = index_of(head_.load(std::memory_order_acquire));
    if (index == pushed_) return std::nullopt;
    return entries_[index & mask_].order.load(std::memory_order_relaxed);
  }

  // Combiner: the next block of the oldest task, if the ring is open and that task is unpublished;
  // publish() has to follow. No taker changes the head meanwhile: it has seen a head that is behind
  // this one, so that its compare-and-swap fails, or that nothing is published behind this one.
  std::optional<Claim> take_unpublished() {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    const std::uint64_t index = index_of(head);
    if ((head & kClosed) != 0 || index == pushed_) return std::nullopt;
    if (index != published_.load(std::memory_order_relaxed)) return std::nullopt;
    const Entry& entry = entries_[index & mask_];
    const Claim claim = {entry.task.load(std::memory_order_relaxed), block_of(head)};
    const bool last = claim.block + 1 >= entry.blocks.load(std::memory_order_relaxed);
    head_.store(last ? next(index) << kBlockBits : head + 1, std::memory_order_release);
    return claim;
  }

  // Combiner: tasks with such blocks.
  std::uint64_t tasks() const {
    return (pushed_ - index_of(head_.load(std::memory_order_acquire))) & kIndexMask;
  }

  // Combiner: these tasks, the oldest first.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::uint64_t index = index_of(head_.load(std::memory_order_acquire)); index != pushed_;
         index = next(index)) {
      visit(entries_[index & mask_].task.load(std::memory_order_relaxed));
    }
  }

  // Combiner: blocks that are not taken, counted up to `enough`; other threads take meanwhile.
  std::uint64_t blocks(std::uint64_t enough) const {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    std::uint64_t count = 0;
    for (std::uint64_t index = index_of(head); index != pushed_ && count < enough;
         index = next(index)) {
      count += entries_[index & mask_].blocks.load(std::memory_order_relaxed);
      if (index == index_of(head)) count -= block_of(head);
    }
    return count;
  }

 private:
  // The head in one word, so that a block is claimed by one compare-and-swap: whether the ring is
  // closed, the place of the oldest task, and its next block.
  static constexpr std::uint64_t kAhead = 4;
  static constexpr unsigned kBlockBits = 20;
  static constexpr std::uint64_t kClosed = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kIndexMask = (kClosed - 1) >> kBlockBits;  // places go round
  // The head may be beyond what is published while the combiner takes unpublished blocks. A head
  // that was read long ago is before it in any case.
  static bool is_before(std::uint64_t index, std::uint64_t published) {
    return ((published - index - 1) & kIndexMask) < kIndexMask / 2;
  }
  static std::uint64_t next(std::uint64_t index) { return (index + 1) & kIndexMask; }
  static std::uint64_t index_of(std::uint64_t head) { return (head & ~kClosed) >> kBlockBits; }
  static std::uint32_t block_of(std::uint64_t head) {
    return static_cast<std::uint32_t>(head & kMaxBlocks);
  }

  struct Entry {
    std::atomic<std::uint64_t> task{0};
    std::atomic<std::uint64_t> order{0};
    std::atomic<std::uint32_t> blocks{0};
  };

  const std::uint64_t mask_;
  std::unique_ptr<Entry[]> entries_;
  alignas(64) std::uint64_t pushed_ = 0;
  alignas(64) std::atomic<std::uint64_t> head_{0};
  alignas(64) std::atomic<std::uint64_t> published_{0};
};

}  // namespace dovetail::cores
