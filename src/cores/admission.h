#pragma once

#include <bit>
#include <cstdint>

#include "cores/topology.h"

namespace dovetail::cores {

// The lanes that a task uses at the same time, all of one group.
struct TaskShape {
  std::uint8_t matrix = 0;   // so many that do matrix work,
  std::uint8_t vector = 0;   // and so many others that do vector work;
  bool whole_group = false;  // or all that the group has

  unsigned lanes() const { return unsigned{matrix} + vector; }
  // Of several lanes, whose parts work together.
  bool is_mixed() const { return whole_group || lanes() > 1; }
  friend bool operator==(const TaskShape&, const TaskShape&) = default;
};

inline constexpr TaskShape kMatrixTask = {1, 0, false};
inline constexpr TaskShape kVectorTask = {0, 1, false};
inline constexpr TaskShape kWholeGroup = {0, 0, true};

// When the parts of a mixed task may be given to lanes.
enum class AdmissionPolicy : std::uint8_t {
  kStrict,   // all its lanes are idle: the parts start together
  kUniform,  // all idle, or all busy with a free pending slot
  kPerCore,  // each starts as its lane comes free
};

// What the lanes of a group are at. Each has a running slot and a pending one, whose content starts
// when what runs has ended. A lane counts as taken from the moment something is given to it.
struct GroupState {
  LaneMask running = 0;  // lanes whose running slot is taken
  LaneMask pending = 0;  // ... whose pending slot is
};

enum class Admission : std::uint8_t {
  kRefused,  // not now
  kRun,      // all parts in running slots
  kPend,     // all parts in pending slots
  kSplit,    // parts of idle lanes in running slots, the others in pending ones
};

// Whether a task may be given to these lanes of a group. The lanes of the group that it does not
// use play no part.
constexpr Admission admit(AdmissionPolicy policy, const GroupState& state, LaneMask lanes) {
  if (lanes == 0 || (state.pending & lanes) != 0) return Admission::kRefused;
  const LaneMask busy = state.running & lanes;
  if (busy == 0) return Admission::kRun;
  // Behind what one lane does at the moment its own next task may wait.
  if (std::has_single_bit(lanes)) return Admission::kPend;
  switch (policy) {
    case AdmissionPolicy::kStrict:
      break;
    case AdmissionPolicy::kUniform:
      if (busy == lanes) return Admission::kPend;
      break;
    case AdmissionPolicy::kPerCore:
      return busy == lanes ? Admission::kPend : Admission::kSplit;
  }
  return Admission::kRefused;
}

// Lanes for a task of this shape among the lanes `from` of a group: the lowest that do; for each
// kind those that do nothing else come first. 0: there are not enough.
constexpr LaneMask choose_lanes(const GroupSpec& group, const TaskShape& shape, LaneMask from) {
  if (shape.whole_group) return (group.all() & ~from) == 0 ? group.all() : 0;
  const auto take = [](LaneMask& pool, unsigned& count) {
    LaneMask taken = 0;
    for (; count > 0 && pool != 0; --count) {
      taken |= pool & (~pool + 1);
      pool &= pool - 1;
    }
    return taken;
  };
  LaneMask only_matrix = from & group.matrix & ~group.vector;
  LaneMask only_vector = from & group.vector & ~group.matrix;
  LaneMask both = from & group.matrix & group.vector;
  unsigned matrix = shape.matrix, vector = shape.vector;
  LaneMask lanes = take(only_matrix, matrix) | take(only_vector, vector);
  lanes |= take(both, matrix);
  lanes |= take(both, vector);
  return matrix == 0 && vector == 0 ? lanes : 0;
}

}  // namespace dovetail::cores
