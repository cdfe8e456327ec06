#include "cores/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <charconv>
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
  for (; lanes > Topology::kMaxLanes; lanes -= Topology::kMaxLanes)
    groups.push_back(general_group(Topology::kMaxLanes));
  groups.push_back(general_group(lanes));
}

}  // namespace

Result<Topology> Topology::parse(std::string_view text) {
  auto groups = Parser(text).run();
  if (!groups) return fail(groups.error());
  return Topology(*std::move(groups));
}

Topology Topology::of_machine() {
  std::vector<std::uint32_t> counts = cores_by_cache();
  if (counts.empty()) counts.push_back(std::max(1U, std::thread::hardware_concurrency()));
  std::vector<GroupSpec> groups;
  for (const std::uint32_t count : counts) add_general_lanes(count, groups);
  return Topology(std::move(groups));
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
