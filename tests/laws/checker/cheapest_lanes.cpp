#include "laws/checker/cheapest_lanes.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace dovetail::laws {
namespace {

using cores::LaneMask;

// Lanes that do the same, the cheapest first.
class Alike {
 public:
  Alike(LaneMask lanes, std::span<const std::int64_t> cost) {
    cores::for_each_lane(lanes, [&](unsigned lane) { lanes_.push_back(lane); });
    std::sort(lanes_.begin(), lanes_.end(),
              [&](unsigned a, unsigned b) { return cost[a] < cost[b]; });
    for (const unsigned lane : lanes_) {
      masks_.push_back(masks_.back() | LaneMask{1} << lane);
      sums_.push_back(sums_.back() + cost[lane]);
    }
  }

  unsigned size() const { return static_cast<unsigned>(lanes_.size()); }
  LaneMask first(unsigned count) const { return masks_[count]; }
  std::int64_t cost_of_first(unsigned count) const { return sums_[count]; }

 private:
  std::vector<unsigned> lanes_;
  std::vector<LaneMask> masks_{0};
  std::vector<std::int64_t> sums_{0};
};

}  // namespace

LaneMask cheapest_lanes(const cores::GroupSpec& group, const cores::TaskShape& shape,
                        std::span<const std::int64_t> cost) {
  if (shape.whole_group) return group.all();
  const Alike matrix(group.matrix & ~group.vector, cost);
  const Alike vector(group.vector & ~group.matrix, cost);
  const Alike both(group.matrix & group.vector, cost);
  LaneMask best = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (unsigned m = 0; m <= std::min<unsigned>(shape.matrix, matrix.size()); ++m) {
    for (unsigned v = 0; v <= std::min<unsigned>(shape.vector, vector.size()); ++v) {
      const unsigned b = shape.lanes() - m - v;
      if (b > both.size()) continue;
      const std::int64_t sum =
          matrix.cost_of_first(m) + vector.cost_of_first(v) + both.cost_of_first(b);
      if (sum >= least) continue;
      least = sum;
      best = matrix.first(m) | vector.first(v) | both.first(b);
    }
  }
  return best;
}

}  // namespace dovetail::laws
