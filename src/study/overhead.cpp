#include "study/overhead.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace dovetail::study {
namespace {

enum Kind : std::size_t { kMatrix, kVector, kKinds };

// At a moment, how many more lanes of each kind are busy from now on, or blocks wait for them.
struct Change {
  cores::Ticks time = 0;
  std::array<int, kKinds> busy{}, waiting{};
};

}  // namespace

Overhead overhead_of(const cores::Topology& topology, std::span<const cores::Span> spans,
                     std::span<const Wait> waits) {
  std::array<int, kKinds> lanes{};
  for (const cores::GroupSpec& group : topology.groups()) {
    lanes[kMatrix] += std::popcount(group.matrix);
    lanes[kVector] += std::popcount(group.vector);
  }
  std::vector<Change> changes;
  for (const cores::Span& span : spans) {
    const cores::GroupSpec& group = topology.groups()[span.group];
    const std::array<int, kKinds> does = {static_cast<int>(group.matrix >> span.lane & 1),
                                          static_cast<int>(group.vector >> span.lane & 1)};
    changes.push_back({span.start, does, {}});
    changes.push_back({span.end, {-does[kMatrix], -does[kVector]}, {}});
  }
  for (const Wait& wait : waits) {
    const bool whole = wait.shape.whole_group;
    const std::array<int, kKinds> needs = {whole || wait.shape.matrix > 0 ? 1 : 0,
                                           whole || wait.shape.vector > 0 ? 1 : 0};
    changes.push_back({wait.ready, {}, needs});
    changes.push_back({wait.start, {}, {-needs[kMatrix], -needs[kVector]}});
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.time < b.time; });

  std::array<int, kKinds> busy{}, waiting{};
  std::array<cores::Ticks, kKinds> lost{};
  cores::Ticks any = 0, all = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    for (const Kind kind : {kMatrix, kVector}) {
      busy[kind] += changes[i].busy[kind];
      waiting[kind] += changes[i].waiting[kind];
    }
    const cores::Ticks lasts = i + 1 < changes.size() ? changes[i + 1].time - changes[i].time : 0;
    bool one = false, each = true;
    for (const Kind kind : {kMatrix, kVector}) {
      if (waiting[kind] == 0) continue;
      const bool is_lost = busy[kind] < lanes[kind];
      lost[kind] += is_lost ? lasts : 0;
      one = one || is_lost;
      each = each && is_lost;
    }
    any += one ? lasts : 0;
    all += one && each ? lasts : 0;
  }
  const cores::Ticks whole = changes.empty() ? 0 : changes.back().time - changes.front().time;
  if (whole == 0) return {};
  const auto share = [&](cores::Ticks time) {
    return static_cast<double>(time) / static_cast<double>(whole);
  };
  return {share(lost[kMatrix]), share(lost[kVector]), share(any), share(all)};
}

}  // namespace dovetail::study
