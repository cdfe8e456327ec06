#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cores/admission.h"

namespace dovetail::cores {

// A set of groups that can be searched for its lowest members.
class GroupSet {
 public:
  explicit GroupSet(std::size_t groups) : words_((groups + 63) / 64, 0) {}

  void set(GroupId group, bool in) {
    const std::uint64_t bit = std::uint64_t{1} << (group % 64);
    in ? words_[group / 64] |= bit : words_[group / 64] &= ~bit;
  }
  std::span<const std::uint64_t> words() const { return words_; }

 private:
  std::vector<std::uint64_t> words_;
};

// The states of all lanes: what runs where, what is pending, and which idle lanes are reserved for
// a task that waits for others of their group. Pure bookkeeping; nothing here decides who gets a
// lane.
class GroupTracker {
 public:
  explicit GroupTracker(const Topology& topology);

  std::size_t groups() const { return states_.size(); }
  const GroupSpec& spec(GroupId group) const { return specs_[group]; }
  const GroupState& state(GroupId group) const { return states_[group]; }

  LaneMask idle(GroupId group) const {
    return specs_[group].all() & ~(states_[group].running | states_[group].pending);
  }
  // Idle lanes that are not reserved.
  LaneMask open(GroupId group) const { return idle(group) & ~reserved_[group]; }
  LaneMask reserved(GroupId group) const { return reserved_[group]; }
  // Busy lanes with a free pending slot that are not reserved.
  LaneMask open_pending(GroupId group) const {
    return states_[group].running & ~states_[group].pending & ~reserved_[group];
  }

  // Slots are taken at once, before the lanes know of it.
  void run(GroupId group, LaneMask lanes);   // idle ones
  void pend(GroupId group, LaneMask lanes);  // into free pending slots
  // What ran on a lane has ended; true: what was pending there runs now.
  bool finish(GroupId group, unsigned lane);
  void unpend(GroupId group, unsigned lane);

  std::size_t pending() const { return pending_; }  // parts, on all lanes

  void reserve(GroupId group, LaneMask lanes);
  void release(GroupId group, LaneMask lanes);

  // The lowest group with open lanes for the shape, groups that are in part busy first for single
  // lanes (whole groups stay whole for those who need them); nothing: there is none.
  struct Place {
    GroupId group = 0;
    LaneMask lanes = 0;
  };
  std::optional<Place> find_open(const TaskShape& shape) const;

  // Whether any lane is idle and not reserved.
  bool any_open() const;

  // How many tasks of the shape could be given lanes of their own now: idle ones, or with `pending`
  // also the pending slots of busy ones, as far as the policy admits it.
  std::size_t capacity(const TaskShape& shape, AdmissionPolicy policy, bool pending) const;

 private:
  void update(GroupId group);
  std::optional<Place> find_in(const TaskShape& shape, const GroupSet* within) const;

  std::vector<GroupSpec> specs_;
  std::vector<GroupState> states_;
  std::vector<LaneMask> reserved_;
  std::size_t pending_ = 0;
  GroupSet open_matrix_, open_vector_;  // groups with such a lane that is open
  GroupSet busy_;                       // groups with a lane that is not idle
};

}  // namespace dovetail::cores
