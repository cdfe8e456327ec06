#pragma once

#include <fmt/core.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cores/dispatcher.h"

// What explorers share: the tasks that they try, and what is on the lanes meanwhile.
namespace dovetail::cores {

struct Kind {
  TaskShape shape;
  std::uint32_t blocks = 1;
  bool together = false;
};

// As in "1C2V*2!": two blocks that start together.
inline std::string describe(const Kind& kind) {
  std::string text = fmt::format("{}C{}V", kind.shape.matrix, kind.shape.vector);
  if (kind.blocks > 1) text += fmt::format("*{}{}", kind.blocks, kind.together ? "!" : "");
  return text;
}

// Calls `visit` with each sequence of so many tasks of these kinds, until it says that it has seen
// enough. True: it has.
template <class Visit>
bool for_each_sequence(std::span<const Kind> kinds, std::size_t count, Visit visit) {
  std::size_t all = 1;
  for (std::size_t i = 0; i < count; ++i) all *= kinds.size();
  for (std::size_t number = 0; number < all; ++number) {
    std::vector<Kind> sequence;
    for (std::size_t rest = number; sequence.size() < count; rest /= kinds.size()) {
      sequence.push_back(kinds[rest % kinds.size()]);
    }
    if (visit(sequence)) return true;
  }
  return false;
}

// What is on the lanes of a few small groups, as executors write it down. `Work` has a `task` and a
// `block`. What goes wrong is returned; nullptr: nothing does.
template <class Work>
class Floor {
 public:
  static constexpr std::size_t kLanesOfGroup = 3, kLanes = 6;
  static std::size_t lane(GroupId group, unsigned index) { return kLanesOfGroup * group + index; }
  static GroupId group_of(std::size_t lane) { return static_cast<GroupId>(lane / kLanesOfGroup); }
  static unsigned index_of(std::size_t lane) { return static_cast<unsigned>(lane % kLanesOfGroup); }

  std::array<std::optional<Work>, kLanes> running, pending;

  bool idle() const {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      if (running[lane] || pending[lane]) return false;
    }
    return true;
  }

  const char* move(const Move& move) {
    auto& from = pending[lane(move.from_group, move.from_lane)];
    if (!from || from->task != move.task || from->block != move.block) {
      return "what moves was not pending there";
    }
    return start(lane(move.to_group, move.to_lane), *std::exchange(from, std::nullopt));
  }

  // A block is given its lanes.
  const char* place(const GroupSpec& group, const Kind& kind, const Placement& placed,
                    const Work& work) {
    const LaneMask lanes = placed.running | placed.pending;
    if (choose_lanes(group, kind.shape, lanes) != lanes) return "lanes that do not fit the shape";
    if (placed.pending != 0 && kind.together) return "a block of a gang has to wait";
    if (placed.pending != 0 && kind.shape.is_mixed()) {
      return "a mixed task shares its lanes with foreign work";
    }
    const char* wrong = nullptr;
    for_each_lane(placed.running, [&](unsigned index) {
      if (const char* why = start(lane(placed.group, index), work)) wrong = why;
    });
    for_each_lane(placed.pending, [&](unsigned index) {
      const std::size_t one = lane(placed.group, index);
      if (!running[one]) wrong = "something is pending behind an idle lane";
      if (pending[one]) wrong = "a pending slot is taken twice";
      pending[one] = work;
    });
    return wrong;
  }

  // What ran on the lane has ended, and this is what the dispatcher says that runs now.
  const char* finish(std::size_t lane, const std::optional<Dispatcher::Part>& next) {
    running[lane].reset();
    auto& own = pending[lane];
    if (!next) return own ? "what was pending is forgotten" : nullptr;
    if (!own) return "something runs that was not pending here";
    const auto is_next = [&](const std::optional<Work>& work) {
      return work && work->task == next->task && work->block == next->block;
    };
    for (std::size_t other = 0; other < kLanes && !is_next(own); ++other) {
      if (is_next(pending[other])) std::swap(pending[other], own);  // it was older
    }
    if (!is_next(own)) return "something runs that was pending nowhere";
    return start(lane, *std::exchange(own, std::nullopt));
  }

 private:
  const char* start(std::size_t lane, const Work& work) {
    if (running[lane]) return "a lane runs two tasks";
    running[lane] = work;
    return nullptr;
  }
};

}  // namespace dovetail::cores
