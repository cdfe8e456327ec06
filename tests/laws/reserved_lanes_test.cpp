#include "laws/checker/reserved_lanes.h"

#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

namespace dovetail::laws {
namespace {

using cores::GroupSpec;
using cores::LaneMask;
using cores::TaskShape;
using cores::Topology;

// Every choice of lanes, one after the other.
class EveryChoice {
 public:
  EveryChoice(std::span<const GroupSpec> groups, std::vector<LaneMask> idle, const Waiting& waiting)
      : groups_(groups), idle_(std::move(idle)), waiting_(waiting) {}

  bool explains() {
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      mixed_.assign(groups_.size(), 0);
      if (!waiting_.mixed) break;
      for (LaneMask lanes = 1; lanes <= groups_[group].all(); ++lanes) {
        if (choose_lanes(groups_[group], *waiting_.mixed, lanes) != lanes) continue;
        mixed_[group] = lanes;
        gang_.assign(groups_.size(), 0);
        if (explains_with(0)) return true;
      }
    }
    mixed_.assign(groups_.size(), 0);
    gang_.assign(groups_.size(), 0);
    return explains_with(0);
  }

 private:
  bool explains_with(std::uint32_t places) {
    if (holds()) return true;
    if (!waiting_.gang || places == waiting_.gang->blocks) return false;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      for (LaneMask lanes = 1; lanes <= groups_[group].all(); ++lanes) {
        if (choose_lanes(groups_[group], waiting_.gang->shape, lanes) != lanes ||
            (lanes & (mixed_[group] | gang_[group])) != 0) {
          continue;
        }
        gang_[group] |= lanes;
        if (explains_with(places + 1)) return true;
        gang_[group] &= ~lanes;
      }
    }
    return false;
  }

  bool holds() const {
    std::uint32_t places = 0;
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      const auto fits = [&](const TaskShape& shape, LaneMask lanes) {
        return choose_lanes(groups_[group], shape, lanes) != 0;
      };
      const LaneMask without_gang = idle_[group] & ~gang_[group];
      if (waiting_.mixed && fits(*waiting_.mixed, without_gang)) return false;
      for (const TaskShape& shape : waiting_.shapes) {
        if (fits(shape, without_gang & ~mixed_[group])) return false;
      }
      LaneMask rest = idle_[group] & ~mixed_[group];
      while (waiting_.gang) {
        const LaneMask lanes = choose_lanes(groups_[group], waiting_.gang->shape, rest);
        if (lanes == 0) break;
        rest &= ~lanes;
        ++places;
      }
    }
    return !waiting_.gang || places < waiting_.gang->blocks;
  }

  std::span<const GroupSpec> groups_;
  std::vector<LaneMask> idle_;
  const Waiting& waiting_;
  std::vector<LaneMask> mixed_, gang_;
};

TEST(ReservedLanes, AreFoundWhereAnyChoiceExplainsThem) {
  std::mt19937_64 random(5);
  const auto below = [&](std::uint64_t n) { return random() % n; };
  static constexpr const char* kMachines[] = {"1x(1C2V)", "2x(1C2V)",        "1x(1C1V2L)",
                                              "2x(2L)",   "1x(2C2V)+1x(1L)", "3x(1C1V)"};
  static constexpr TaskShape kWide[] = {
      {1, 1, false}, {1, 2, false}, {0, 2, false}, {2, 0, false}, cores::kWholeGroup};
  std::size_t explained = 0;
  static constexpr std::size_t kRounds = 20000;
  for (std::size_t round = 0; round < kRounds; ++round) {
    const std::string text = kMachines[below(std::size(kMachines))];
    const Topology machine = *Topology::parse(text);
    std::vector<LaneMask> idle;
    for (const GroupSpec& group : machine.groups()) idle.push_back(group.all() & random());
    Waiting waiting;
    if (below(2) == 0) waiting.mixed = kWide[below(std::size(kWide))];
    if (below(3) != 0) {
      const TaskShape shape = below(2) == 0   ? kWide[below(std::size(kWide))]
                              : below(2) == 0 ? cores::kMatrixTask
                                              : cores::kVectorTask;
      waiting.gang = {shape, static_cast<std::uint32_t>(2 + below(2))};
    }
    if (below(2) == 0) waiting.shapes.push_back(kWide[below(std::size(kWide))]);
    if (below(2) == 0) waiting.shapes.push_back(cores::kMatrixTask);
    if (below(2) == 0) waiting.shapes.push_back(cores::kVectorTask);
    const bool expected = EveryChoice(machine.groups(), idle, waiting).explains();
    explained += expected ? 1 : 0;
    ASSERT_EQ(may_be_idle(machine.groups(), idle, waiting), expected) << "round " << round;
  }
  EXPECT_GT(explained, kRounds / 10);
  EXPECT_LT(explained, kRounds * 9 / 10);
}

}  // namespace
}  // namespace dovetail::laws
