#pragma once

#include <map>
#include <utility>
#include <vector>

#include "cores/spans.h"

namespace dovetail::cores {

// For how long something was parked on lanes, and lanes were kept. Whoever carries out what a
// Dispatcher decides tells it, at times that never go back; what took no time is left out. One
// thread at a time.
class SlotWatch {
 public:
  explicit SlotWatch(std::size_t groups) : kept_now_(groups, 0) {}

  // The part is in the lane's pending slot from now on.
  void park(Dispatcher::Part part, GroupId group, unsigned lane, Ticks now);
  // What the lane has parked goes elsewhere.
  void unpark(GroupId group, unsigned lane, Ticks now);
  // Dispatcher::finish() said that the lane goes on with this part: what it has parked, or what
  // another lane had, with which it has changed places.
  void start(Dispatcher::Part part, GroupId group, unsigned lane, Ticks now);
  // Which lanes are idle and kept from now on.
  void see_kept(const GroupTracker& tracker, Ticks now);

  // What is over, by end.
  const std::vector<Span>& parked() const { return parked_; }
  const std::vector<KeptSpan>& kept() const { return kept_; }
  // The same; they are forgotten.
  std::vector<Span> take_parked() { return std::exchange(parked_, {}); }
  std::vector<KeptSpan> take_kept() { return std::exchange(kept_, {}); }

 private:
  using LaneKey = std::pair<GroupId, unsigned>;

  std::map<LaneKey, Span> parked_now_;
  std::vector<LaneMask> kept_now_;  // by group: idle ones
  std::map<LaneKey, Ticks> kept_since_;
  std::vector<Span> parked_;
  std::vector<KeptSpan> kept_;
};

}  // namespace dovetail::cores
