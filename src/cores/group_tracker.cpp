#include "cores/group_tracker.h"

#include <bit>
#include <cassert>

namespace dovetail::cores {

GroupTracker::GroupTracker(const Topology& topology)
    : specs_(topology.groups().begin(), topology.groups().end()),
      states_(specs_.size()),
      reserved_(specs_.size(), 0),
      open_matrix_(specs_.size()),
      open_vector_(specs_.size()),
      busy_(specs_.size()) {
  for (GroupId group = 0; group < specs_.size(); ++group) update(group);
}

void GroupTracker::update(GroupId group) {
  const LaneMask lanes = open(group);
  open_matrix_.set(group, (lanes & specs_[group].matrix) != 0);
  open_vector_.set(group, (lanes & specs_[group].vector) != 0);
  busy_.set(group, idle(group) != specs_[group].all());
}

void GroupTracker::run(GroupId group, LaneMask lanes) {
  assert((lanes & ~idle(group)) == 0);
  states_[group].running |= lanes;
  update(group);
}

void GroupTracker::pend(GroupId group, LaneMask lanes) {
  assert((lanes & ~(states_[group].running & ~states_[group].pending)) == 0);
  states_[group].pending |= lanes;
  pending_ += static_cast<std::size_t>(std::popcount(lanes));
  update(group);
}

bool GroupTracker::finish(GroupId group, unsigned lane) {
  const LaneMask bit = LaneMask{1} << lane;
  GroupState& state = states_[group];
  assert((state.running & bit) != 0);
  const bool next = (state.pending & bit) != 0;
  (next ? state.pending : state.running) &= ~bit;
  if (next) --pending_;
  update(group);
  return next;
}

void GroupTracker::unpend(GroupId group, unsigned lane) {
  assert((states_[group].pending >> lane & 1) != 0);
  states_[group].pending &= ~(LaneMask{1} << lane);
  --pending_;
  update(group);
}

void GroupTracker::reserve(GroupId group, LaneMask lanes) {
  assert((reserved_[group] & lanes) == 0);
  reserved_[group] |= lanes;
  update(group);
}

void GroupTracker::release(GroupId group, LaneMask lanes) {
  assert((lanes & ~reserved_[group]) == 0);
  reserved_[group] &= ~lanes;
  update(group);
}

std::optional<GroupTracker::Place> GroupTracker::find_open(const TaskShape& shape) const {
  if (!shape.is_mixed()) {
    if (auto place = find_in(shape, &busy_)) return place;
  }
  return find_in(shape, nullptr);
}

bool GroupTracker::any_open() const {
  for (std::size_t word = 0; word < busy_.words().size(); ++word) {
    if ((open_matrix_.words()[word] | open_vector_.words()[word]) != 0) return true;
  }
  return false;
}

std::optional<GroupTracker::Place> GroupTracker::find_in(const TaskShape& shape,
                                                         const GroupSet* within) const {
  for (std::size_t word = 0; word < busy_.words().size(); ++word) {
    std::uint64_t found = open_matrix_.words()[word] | open_vector_.words()[word];
    if (shape.matrix > 0) found &= open_matrix_.words()[word];
    if (shape.vector > 0) found &= open_vector_.words()[word];
    if (within != nullptr) found &= within->words()[word];
    for (; found != 0; found &= found - 1) {
      const auto group =
          static_cast<GroupId>(64 * word + static_cast<unsigned>(std::countr_zero(found)));
      const LaneMask lanes = choose_lanes(specs_[group], shape, open(group));
      if (lanes != 0) return Place{group, lanes};
    }
  }
  return std::nullopt;
}

std::size_t GroupTracker::capacity(const TaskShape& shape, AdmissionPolicy policy,
                                   bool pending) const {
  std::size_t count = 0;
  for (GroupId group = 0; group < specs_.size(); ++group) {
    LaneMask pool = pending ? specs_[group].all() : idle(group);
    while (const LaneMask lanes = choose_lanes(specs_[group], shape, pool)) {
      if (admit(policy, states_[group], lanes) != Admission::kRefused) ++count;
      pool &= ~lanes;
    }
  }
  return count;
}

}  // namespace dovetail::cores
