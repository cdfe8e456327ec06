#include "cores/topology.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <charconv>
#include <numeric>
#include <optional>
#include <thread>

#include "cores/machine_cores.h"

namespace dovetail::cores {
namespace {

// `count` lanes from lane `first` on.
LaneMask lanes_from(std::uint32_t first, std::uint32_t count) {
  const LaneMask below = count >= 64 ? ~LaneMask{0} : (LaneMask{1} << count) - 1;
  return first >= 64 ? 0 : below << first;
}

GroupSpec general_group(std::uint32_t lanes) {
  return {lanes_from(0, lanes), lanes_from(0, lanes)};
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<std::vector<GroupSpec>> run() {
    std::vector<GroupSpec> groups;
    do {
      std::uint32_t count = 1;
      if (digit()) {
        const auto given = number(Topology::kMaxGroups);
        if (!given) return fail(given.error());
        if (!take('x')) return wrong("expected 'x' and a group");
        count = *given;
      }
      const auto spec = group();
      if (!spec) return fail(spec.error());
      if (groups.size() + count > Topology::kMaxGroups) {
        return wrong(fmt::format("more than {} groups", Topology::kMaxGroups));
      }
      groups.insert(groups.end(), count, *spec);
    } while (take('+'));
    if (at_ < text_.size()) return wrong("expected '+' or the end");
    return groups;
  }

 private:
  Result<GroupSpec> group() {
    if (!take('(')) return wrong("expected '(' and lanes, as in (1C2V)");
    GroupSpec spec;
    std::uint32_t lanes = 0;
    do {
      const auto count = number(Topology::kMaxLanes);
      if (!count) return fail(count.error());
      if (lanes + *count > Topology::kMaxLanes) {
        return wrong(fmt::format("a group of more than {} lanes", Topology::kMaxLanes));
      }
      const LaneMask mask = lanes_from(lanes, *count);
      if (take('C')) {
        spec.matrix |= mask;
      } else if (take('V')) {
        spec.vector |= mask;
      } else if (take('L')) {
        spec.matrix |= mask;
        spec.vector |= mask;
      } else {
        return wrong("expected C, V or L behind the number of lanes");
      }
      lanes += *count;
    } while (digit());
    if (!take(')')) return wrong("expected a number of lanes or ')'");
    return spec;
  }

  Result<std::uint32_t> number(std::uint32_t most) {
    std::uint32_t value = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value == 0 || value > most) {
      return wrong(fmt::format("expected a number from 1 to {}", most));
    }
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  bool digit() const { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; }
  bool take(char letter) {
    if (at_ >= text_.size() || text_[at_] != letter) return false;
    ++at_;
    return true;
  }
  tl::unexpected<Error> wrong(std::string_view what) const {
    return fail(ErrorKind::kInvalid, "topology '{}', character {}: {}", text_.substr(0, 100),
                at_ + 1, what);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string lanes_text(const GroupSpec& spec) {
  std::string text;
  const auto count = static_cast<unsigned>(std::popcount(spec.all()));
  for (unsigned first = 0; first < count;) {
    const auto kind = [&](unsigned lane) {
      const LaneMask bit = LaneMask{1} << lane;
      return (spec.matrix & bit) == 0 ? 'V' : (spec.vector & bit) == 0 ? 'C' : 'L';
    };
    unsigned end = first + 1;
    while (end < count && kind(end) == kind(first)) ++end;
    text += fmt::format("{}{}", end - first, kind(first));
    first = end;
  }
  return text;
}

void add_general_lanes(std::uint32_t lanes, std::vector<GroupSpec>& groups) {
  std::uint32_t parts = (lanes + Topology::kMaxLanes - 1) / Topology::kMaxLanes;
  for (; parts > 0; --parts) {
    const std::uint32_t part = (lanes + parts - 1) / parts;
    groups.push_back(general_group(part));
    lanes -= part;
  }
}

// How many lanes belong to each cache. Of more cores than lanes the first ones have one: those that
// share a cache are near each other. Of fewer, each has as many as the others, and what is left
// over is dealt to the caches in turn.
std::vector<std::uint32_t> lanes_by_cache(std::span<const std::uint32_t> cores,
                                          std::uint32_t lanes) {
  const auto all = std::accumulate(cores.begin(), cores.end(), std::uint32_t{0});
  std::vector<std::uint32_t> counts;
  for (const std::uint32_t count : cores) counts.push_back(lanes / all * count);
  std::uint32_t left = lanes % all;
  if (lanes < all) {
    for (std::size_t cache = 0; cache < cores.size(); ++cache) {
      counts[cache] = std::min(left, cores[cache]);
      left -= counts[cache];
    }
  }
  for (std::uint32_t round = 0; left > 0; ++round) {
    for (std::size_t cache = 0; cache < cores.size() && left > 0; ++cache) {
      if (round >= cores[cache]) continue;
      ++counts[cache];
      --left;
    }
  }
  return counts;
}

}  // namespace

Result<Topology> Topology::parse(std::string_view text) {
  auto groups = Parser(text).run();
  if (!groups) return fail(groups.error());
  return Topology(*std::move(groups));
}

Topology Topology::of_machine() {
  const std::vector<std::uint32_t> cores = cores_by_cache();
  const auto all = std::accumulate(cores.begin(), cores.end(), std::uint32_t{0});
  return of_caches(cores, all > 0 ? all : std::max(1U, std::thread::hardware_concurrency()));
}

Topology Topology::of_machine(std::uint32_t lanes) { return of_caches(cores_by_cache(), lanes); }

Topology Topology::of_caches(std::span<const std::uint32_t> cores, std::uint32_t lanes) {
  assert(lanes > 0);
  if (cores.empty()) return of_lanes(lanes);
  const std::vector<std::uint32_t> counts = lanes_by_cache(cores, lanes);
  Topology topology({});
  std::size_t first = 0;
  for (std::size_t cache = 0; cache < cores.size(); ++cache) {
    add_general_lanes(counts[cache], topology.groups_);
    for (std::uint32_t lane = 0; lane < counts[cache]; ++lane)
      topology.cores_.push_back(first + lane % cores[cache]);
    first += cores[cache];
  }
  return topology;
}

Topology Topology::of_lanes(std::uint32_t lanes) {
  assert(lanes > 0);
  std::vector<GroupSpec> groups;
  add_general_lanes(lanes, groups);
  return Topology(std::move(groups));
}

std::size_t Topology::lanes() const {
  std::size_t count = 0;
  for (const GroupSpec& spec : groups_)
    count += static_cast<std::size_t>(std::popcount(spec.all()));
  return count;
}

std::string Topology::text() const {
  std::string text;
  for (std::size_t first = 0; first < groups_.size();) {
    std::size_t end = first + 1;
    while (end < groups_.size() && groups_[end] == groups_[first]) ++end;
    text +=
        fmt::format("{}{}x({})", text.empty() ? "" : "+", end - first, lanes_text(groups_[first]));
    first = end;
  }
  return text;
}

}  // namespace dovetail::cores
