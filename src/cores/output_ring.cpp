#include "cores/output_ring.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "cores/mutation.h"

namespace dovetail::cores {
namespace {}  // namespace

Status OutputRing::check(const OutputRingOptions& options) {
  if (!std::has_single_bit(options.alignment)) {
    return fail(ErrorKind::kInvalid, "OutputRingOptions::alignment: {} is no power of two",
                options.alignment);
  }
  if (options.bytes == 0 || options.bytes % options.alignment != 0) {
    return fail(ErrorKind::kInvalid,
                "OutputRingOptions::bytes: {} is no positive multiple of the alignment of {}",
                options.bytes, options.alignment);
  }
  if (options.tasks == 0) {
    return fail(ErrorKind::kInvalid, "OutputRingOptions::tasks: 0, expected at least 1");
  }
  return {};
}

OutputRing::OutputRing(const OutputRingOptions& options) : options_(options), held_(options.tasks) {
  assert(check(options));
}

// Where so many bytes would lie if what is held began at `tail`, or if nothing was held.
bool OutputRing::place(std::uint64_t bytes, std::uint64_t tail, bool empty,
                       std::uint64_t& begin) const {
  if (empty && !mutated(RingMutant::kKeepsItsPlace)) {
    begin = 0;
    return bytes <= capacity();
  }
  const bool ahead = mutated(RingMutant::kFullIsEmpty) ? tail <= head_ : tail < head_;
  begin = head_;
  if (empty || ahead) {
    const bool straddles = mutated(RingMutant::kStraddles) && head_ < capacity() && bytes <= tail;
    if (bytes <= capacity() - head_ || straddles) return true;
    begin = 0;
    return bytes <= tail;
  }
  return bytes <= tail - head_;
}

Result<std::uint64_t> OutputRing::allocate(TaskNumber task, std::uint64_t bytes,
                                           TaskNumber held_from) {
  assert(count_ == 0 || oldest(count_ - 1).task <= task);
  if (bytes > capacity()) {
    return fail(ErrorKind::kInvalid,
                "task {}: an output of {} bytes, and OutputRingOptions::bytes has room for {}",
                task, bytes, capacity());
  }
  if (bytes == 0) return std::uint64_t{0};
  // At most the capacity, which is a multiple.
  const std::uint64_t whole = (bytes + options_.alignment - 1) & ~(options_.alignment - 1);
  const bool is_new = count_ == 0 || oldest(count_ - 1).task != task;
  std::uint64_t begin = 0;
  const std::uint64_t tail = count_ == 0 ? head_ : oldest(0).begin;
  if ((is_new && count_ == held_.size()) || !place(whole, tail, count_ == 0, begin)) {
    return refuse(task, whole, held_from, is_new);
  }
  if (begin < head_) wrap_ = head_;
  if (is_new) held_[(first_ + count_++) % held_.size()] = {task, begin};
  head_ = begin + whole;
  high_water_.bytes = std::max(high_water_.bytes, used());
  high_water_.tasks = std::max(high_water_.tasks, count_);
  return begin;
}

// Why a request does not fit now, and whether it would once all that may be given up was.
tl::unexpected<Error> OutputRing::refuse(TaskNumber task, std::uint64_t bytes, TaskNumber held_from,
                                         bool is_new) const {
  std::uint32_t stays = 0;  // the oldest that does
  while (stays < count_ && oldest(stays).task < held_from) ++stays;
  const bool none = stays == count_;
  if (is_new && count_ - stays == held_.size()) {
    return fail(ErrorKind::kInvalid,
                "deadlock: tasks {} to {} hold all {} places for outputs until task {} is in; end "
                "their scope earlier, or raise OutputRingOptions::tasks",
                oldest(stays).task, oldest(count_ - 1).task, held_.size(), task);
  }
  std::uint64_t begin = 0;
  if (!none && !place(bytes, oldest(stays).begin, false, begin)) {
    return fail(ErrorKind::kInvalid,
                "deadlock: task {} needs {} bytes in one piece, and tasks {} to {} hold too much "
                "of the {} until it is in; end their scope earlier, or raise "
                "OutputRingOptions::bytes",
                task, bytes, oldest(stays).task, oldest(count_ - 1).task, capacity());
  }
  if (is_new && count_ == held_.size()) {
    return fail(ErrorKind::kExhausted, "{} tasks hold outputs", count_);
  }
  return fail(ErrorKind::kExhausted, "{} bytes of output are in use, {} are asked for", used(),
              bytes);
}

void OutputRing::give_up_before(TaskNumber oldest_task) {
  while (count_ > 0 && oldest(0).task < oldest_task) {
    first_ = (first_ + 1) % static_cast<std::uint32_t>(held_.size());
    --count_;
  }
  if (count_ == 0 && !mutated(RingMutant::kKeepsItsPlace)) head_ = 0;
}

std::uint64_t OutputRing::gap() const {
  if (count_ == 0 || oldest(0).begin < head_) return 0;
  return capacity() - wrap_;
}

std::uint64_t OutputRing::used() const {
  if (count_ == 0) return 0;
  const std::uint64_t tail = oldest(0).begin;
  if (tail < head_) return head_ - tail;
  const std::uint64_t all = capacity() - tail + head_;
  return mutated(RingMutant::kGapTwice) ? all + gap() : all;
}

}  // namespace dovetail::cores
