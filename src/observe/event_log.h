#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dovetail::observe {

// What happened. `id` is a sequence, but for the events of steps, where it is the step's number.
// Unused numbers are 0.
enum class EventKind : std::uint8_t {
  // The life of a sequence, written by the scheduler.
  kArrive,    // a: prompt tokens, b: new tokens at most, c: tenant
  kPriority,  // right after kArrive: a: priority (two's complement), b: batch class
  kRefuse,    // can never fit, or the queue is full; the id was never in
  kAdmit,     // a: slot, b: tokens found in the prefix index, c: 1 if it was preempted before
  kPreempt,   // a: slot that it lost, b: tokens whose cache it lost
  kFinish,    // a: new tokens in all
  kCancel,    // a: 1 if a row of it is under way, so that slot and blocks are kept until its commit

  // Blocks. `c` counts positions from the start of the sequence's block table.
  kTakeBlock,     // a: block, c: place in the table; its former content is gone
  kShareBlock,    // a: block, c: place in the table; found in the prefix index
  kReleaseBlock,  // a: block
  kIndexBlock,    // a: block: full, computed, and findable from now on
  kDropBlock,     // a: block: no longer findable
  kWithhold,      // a: blocks that the owner of the memory keeps back from now on

  // Steps. A plan's events lie between its kPlan and its kPlanned.
  kPlan,     // a: 1 if the plan before it is still under way
  kRow,      // id: sequence; a: first position, b: tokens, c: guesses among them; flags: RowFlags
  kPlanned,  // a: prefill rows, b: decode rows, c: tokens
  kAccept,  // id: sequence; of a committed row: a: new tokens, b: positions computed, c: 1: its end
  kCommit,  // end of a step's commit

  // The engine's work on a step; times lie in the events.
  kForward,    // begins
  kForwarded,  // ends; sampling begins
  kSampled,    // ends
};

enum RowFlags : std::uint16_t { kRowFinalChunk = 1, kRowSampled = 2, kRowDecode = 4 };

struct Event {
  std::int64_t time = 0;  // nanoseconds of the writer's clock, real or virtual
  std::uint64_t id = 0;
  std::uint32_t a = 0, b = 0, c = 0;
  EventKind kind = EventKind::kArrive;
  std::uint8_t reserved = 0;
  std::uint16_t flags = 0;
};
static_assert(sizeof(Event) == 32);

// The last events of a run, in the order in which they were written; older ones are overwritten.
// The log reads no clock: whoever drives the writers tells it the time. One thread at a time.
class EventLog {
 public:
  // Keeps at least `capacity` events (the next power of two).
  explicit EventLog(std::size_t capacity);

  void set_time(std::int64_t nanoseconds) { now_ = nanoseconds; }
  std::int64_t time() const { return now_; }

  void write(EventKind kind, std::uint64_t id, std::uint32_t a = 0, std::uint32_t b = 0,
             std::uint32_t c = 0, std::uint16_t flags = 0) {
    ring_[written_++ & mask_] = {now_, id, a, b, c, kind, 0, flags};
  }

  // Events written since the start, and the oldest that is still here; events are numbered from 0.
  std::uint64_t written() const { return written_; }
  std::uint64_t oldest() const { return written_ > ring_.size() ? written_ - ring_.size() : 0; }
  // Requires oldest() <= number < written().
  const Event& at(std::uint64_t number) const { return ring_[number & mask_]; }

  // What is still here, from the oldest on.
  std::vector<Event> events() const;

 private:
  std::vector<Event> ring_;
  std::uint64_t mask_ = 0;
  std::uint64_t written_ = 0;
  std::int64_t now_ = 0;
};

}  // namespace dovetail::observe
