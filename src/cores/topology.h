#pragma once

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

  // So many lanes for both, at least one, in as few groups as there can be.
  static Topology of_lanes(std::uint32_t lanes);

  std::span<const GroupSpec> groups() const { return groups_; }
  std::size_t lanes() const;
  // In the form that parse() reads.
  std::string text() const;

 private:
  explicit Topology(std::vector<GroupSpec> groups) : groups_(std::move(groups)) {}

  std::vector<GroupSpec> groups_;
};

}  // namespace dovetail::cores
