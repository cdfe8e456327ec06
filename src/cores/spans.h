#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cores/dispatcher.h"

namespace dovetail::cores {

// What a lane did from `start` to `end`.
struct Span {
  TaskId task = 0;
  std::uint32_t block = 0;
  GroupId group = 0;
  unsigned lane = 0;
  Ticks start = 0, end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

// A lane was idle and reserved for a task that waited for others of its group.
struct ReservedSpan {
  GroupId group = 0;
  unsigned lane = 0;
  Ticks start = 0, end = 0;
  friend bool operator==(const ReservedSpan&, const ReservedSpan&) = default;
};

// What the lanes of a machine were at.
struct LaneSpans {
  std::vector<Span> running;
  std::vector<Span> pending;  // in the pending slot of a lane
  std::vector<ReservedSpan> reserved;
};

// For how long something was pending on lanes, and lanes were reserved. The executor of a
// Dispatcher's decisions reports each of them, at times that never go back; spans of zero length
// are left out. Not thread-safe: one call after the other.
class SlotWatch {
 public:
  explicit SlotWatch(std::size_t groups) : reserved_now_(groups, 0) {}

  // The part is in the lane's pending slot from now on.
  void pend(Dispatcher::Part part, GroupId group, unsigned lane, Ticks now);
  // What the lane has pending goes elsewhere.
  void unpend(GroupId group, unsigned lane, Ticks now);
  // Dispatcher::finish() said that the lane goes on with this part: what it has pending, or what
  // another lane had, with which it has changed places.
  void start(Dispatcher::Part part, GroupId group, unsigned lane, Ticks now);
  // Which lanes are idle and reserved from now on.
  void see_reserved(const GroupTracker& tracker, Ticks now);

  // What is over, by end.
  const std::vector<Span>& pending() const { return pending_; }
  const std::vector<ReservedSpan>& reserved() const { return reserved_; }
  // The same; they are forgotten.
  std::vector<Span> take_pending() { return std::exchange(pending_, {}); }
  std::vector<ReservedSpan> take_reserved() { return std::exchange(reserved_, {}); }

 private:
  using LaneKey = std::pair<GroupId, unsigned>;

  std::map<LaneKey, Span> pending_now_;
  std::vector<LaneMask> reserved_now_;  // by group: idle ones
  std::map<LaneKey, Ticks> reserved_since_;
  std::vector<Span> pending_;
  std::vector<ReservedSpan> reserved_;
};

}  // namespace dovetail::cores
