#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::cores {

// Lanes of one group, one bit each.
using LaneMask = std::uint64_t;

// Calls `visit` with each lane's index, the lowest first.
template <class Visit>
void for_each_lane(LaneMask lanes, Visit visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(static_cast<unsigned>(std::countr_zero(lanes)));
}
using GroupId = std::uint32_t;

// Lanes that share a near memory. A lane does matrix work, vector work or both.
struct GroupSpec {
  LaneMask matrix = 0;
  LaneMask vector = 0;

  LaneMask all() const { return matrix | vector; }
  friend bool operator==(const GroupSpec&, const GroupSpec&) = default;
};

// The core groups of a machine, which may be another one than this.
class Topology {
 public:
  static constexpr std::uint32_t kMaxLanes = 64;  // of a group
  static constexpr std::uint32_t kMaxGroups = 65'536;

  // As text: "24x(1C2V)", "8x(1C2V)+2x(16L)". C: a lane for matrix work, V: for vector work, L: for
  // both; lanes are numbered in that order. kInvalid says what is wrong where.
  static Result<Topology> parse(std::string_view text);

  // This machine: a group of lanes for both per L3 cache, a lane per physical core that the process
  // may use; caches of more cores count as several groups.
  static Topology of_machine();

  // So many lanes for both, at least one, on this machine: one for each physical core, in the order
  // of machine_cores.h, and a group per L3 cache. Where the system does not say: as of_lanes().
  static Topology of_machine(std::uint32_t lanes);

  // As of_machine(), of a machine with so many cores by cache; none: as of_lanes(). Lanes beyond
  // the cores go round them again, the last of these to one cache after the other; caches with more
  // than kMaxLanes count as several groups of much the same size.
  static Topology of_caches(std::span<const std::uint32_t> cores, std::uint32_t lanes);

  // So many lanes for both, at least one, in as few groups as there can be.
  static Topology of_lanes(std::uint32_t lanes);

  std::span<const GroupSpec> groups() const { return groups_; }
  std::size_t lanes() const;
  // Where a lane belongs, by its number over all groups: that core's number (machine_cores.h). Its
  // own for topologies that say nothing of cores.
  std::size_t core_of(std::size_t lane) const { return cores_.empty() ? lane : cores_[lane]; }
  // In the form that parse() reads.
  std::string text() const;

 private:
  explicit Topology(std::vector<GroupSpec> groups) : groups_(std::move(groups)) {}

  std::vector<GroupSpec> groups_;
  std::vector<std::size_t> cores_;  // by lane; none: core_of() says
};

}  // namespace dovetail::cores
