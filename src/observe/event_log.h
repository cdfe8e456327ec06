#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dovetail::observe {

// Kinds of events. `id` is a sequence, or the step's number in the events of steps. Unused numbers
// are 0.
enum class EventKind : std::uint8_t {
  // The life of a sequence, written by the scheduler.
  kArrive,    // a: prompt tokens, b: new tokens at most, c: tenant
  kPriority,  // right after kArrive: a: priority (two's complement), b: batch class, c: 1 if it
              // finds no prefix but its own
  kRefuse,    // can never fit, or the queue is full; the sequence was never queued
  kAdmit,     // a: slot, b: tokens found in the prefix index, c: 1 if resumed after a preemption
  kPreempt,   // a: lost slot, b: lost computed tokens
  kFinish,    // a: new tokens in all
  kCancel,    // a: 1 if a row of it is in flight: its commit frees slot and blocks

  // Blocks of a group of layers (b). `c` counts the group's blocks from the sequence's start.
  kTakeBlock,     // a: block, b: group, c: index; its former content is overwritten
  kShareBlock,    // a: block, b: group, c: index; found in the prefix index
  kReleaseBlock,  // a: block
  kIndexBlock,    // a: block: full, computed, and in the prefix index from now on
  kDropBlock,     // a: block: no longer in the prefix index
  kWithhold,      // a: blocks withheld from allocation from now on

  // Saved states of sequences, which have numbers of their own.
  kLoadState,     // a: state, b: positions: the next row begins with it
  kSaveState,     // a: state, b: positions, c: 1: before a draft token: a row overwrites it
  kIndexState,    // a: state: saved, and in the prefix index from now on
  kReleaseState,  // a: state: begun with, saved, or given up
  kDropState,     // a: state: no longer in the prefix index

  // Steps. A plan's events are written between its kPlan and its kPlanned.
  kPlan,     // a: 1 if the plan before it is still in flight
  kRow,      // id: sequence; a: first position, b: tokens, c: draft tokens; flags: RowFlags
  kPlanned,  // a: prefill rows, b: decode rows, c: tokens
  kAccept,  // id: sequence; of a committed row: a: new tokens, b: positions computed, c: 1: its end
  kCommit,  // end of a step's commit

  // The engine's work on a step; the events carry its times.
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

// A ring of the last events of a run, in the order of writing. The log reads no clock: the driver
// of the writers sets the time. One thread at a time.
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

  // Number of events written since the start, and of the oldest one in the ring (from 0).
  std::uint64_t written() const { return written_; }
  std::uint64_t oldest() const { return written_ > ring_.size() ? written_ - ring_.size() : 0; }
  // Requires oldest() <= number < written().
  const Event& at(std::uint64_t number) const { return ring_[number & mask_]; }

  // The events in the ring, oldest first.
  std::vector<Event> events() const;

 private:
  std::vector<Event> ring_;
  std::uint64_t mask_ = 0;
  std::uint64_t written_ = 0;
  std::int64_t now_ = 0;
};

// State of a lane during a slice.
enum class LaneTrack : std::uint8_t {
  kRunning,
  kPending,   // the task is in the lane's pending slot, behind the running one
  kReserved,  // idle, reserved for a task that waits for other lanes of its group
};

// A span of a lane in a step: a block of a task, or a reservation without a block.
struct LaneSlice {
  std::int64_t start = 0, end = 0;  // nanoseconds, as Event::time
  const char* task = "";            // static storage
  std::int32_t layer = -1;          // -1: none
  std::uint32_t tile = 0, block = 0;
  std::uint32_t lane = 0;
  LaneTrack track = LaneTrack::kRunning;
};

// A ring of the last slices of a run. One thread at a time.
class LaneLog {
 public:
  // Keeps `capacity` slices, at least one; memory grows with the slices.
  explicit LaneLog(std::size_t capacity) : capacity_(capacity) {}

  void write(const LaneSlice& slice) {
    if (ring_.size() < capacity_) {
      ring_.push_back(slice);
    } else {
      ring_[written_ % capacity_] = slice;
    }
    ++written_;
  }

  // The slices in the ring, in no order.
  const std::vector<LaneSlice>& slices() const { return ring_; }

 private:
  std::size_t capacity_;
  std::vector<LaneSlice> ring_;
  std::size_t written_ = 0;
};

}  // namespace dovetail::observe
