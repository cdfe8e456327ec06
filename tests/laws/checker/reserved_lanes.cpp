#include "laws/checker/reserved_lanes.h"

#include <algorithm>
#include <bit>

namespace dovetail::laws {
namespace {

using cores::GroupSpec;
using cores::LaneMask;
using cores::TaskShape;

// Lanes of a group by what they do: those that do the same are as good as each other.
struct Counts {
  unsigned matrix = 0, vector = 0, both = 0;

  Counts operator-(const Counts& other) const {
    return {matrix - other.matrix, vector - other.vector, both - other.both};
  }
  Counts operator+(const Counts& other) const {
    return {matrix + other.matrix, vector + other.vector, both + other.both};
  }
  unsigned sum() const { return matrix + vector + both; }
  friend bool operator==(const Counts&, const Counts&) = default;
};

struct Lanes {
  Counts idle, busy;
};

Counts count(const GroupSpec& group, LaneMask lanes) {
  const auto of = [](LaneMask mask) { return static_cast<unsigned>(std::popcount(mask)); };
  return {of(lanes & group.matrix & ~group.vector), of(lanes & group.vector & ~group.matrix),
          of(lanes & group.matrix & group.vector)};
}

bool are_enough(const Counts& lanes, unsigned matrix, unsigned vector) {
  return matrix - std::min(matrix, lanes.matrix) + vector - std::min(vector, lanes.vector) <=
         lanes.both;
}

// What is the same for all choices of reserved lanes in one group.
class Group {
 public:
  Group(const GroupSpec& spec, LaneMask idle, const Waiting& waiting)
      : all_(count(spec, spec.all())), idle_(count(spec, idle)), waiting_(waiting) {}

  unsigned places_of_gang() const { return places_of_gang(idle_); }

  // The fewest places of the gang that are to be reserved here, so that no task fits in the rest;
  // nothing: more than `most`. With lanes for the mixed task, these have to cost the gang
  // `dearly` places or more.
  std::optional<unsigned> needed(unsigned most, bool for_mixed, unsigned dearly) const {
    if (!for_mixed && !any_fits_in(idle_, waiting_.mixed.has_value())) return 0;
    for (unsigned places = 0; places <= most; ++places) {
      if (suffices(places, for_mixed, dearly)) return places;
    }
    return std::nullopt;
  }

 private:
  bool fits(const TaskShape& shape, const Counts& lanes) const {
    return shape.whole_group ? lanes == all_ : are_enough(lanes, shape.matrix, shape.vector);
  }

  bool any_fits_in(const Counts& lanes, bool mixed_too) const {
    if (mixed_too && fits(*waiting_.mixed, lanes)) return true;
    return std::any_of(waiting_.shapes.begin(), waiting_.shapes.end(),
                       [&](const TaskShape& shape) { return fits(shape, lanes); });
  }

  unsigned places_of_gang(const Counts& lanes) const {
    const auto& [shape, blocks] = *waiting_.gang;
    if (shape.whole_group) return lanes == all_ ? 1 : 0;
    unsigned places = 0;
    while (places < blocks &&
           are_enough(lanes, (places + 1) * shape.matrix, (places + 1) * shape.vector)) {
      ++places;
    }
    return places;
  }

  // Calls holds() with all that so many places of a shape can be, of the idle and of the busy lanes
  // `from`, until it holds.
  template <class Holds>
  bool any(const TaskShape& shape, unsigned places, const Lanes& from, const Holds& holds) const {
    if (places > 0 && shape.whole_group)
      return places == 1 && from.idle + from.busy == all_ && holds(from);
    const unsigned matrix = places * shape.matrix, vector = places * shape.vector;
    return any_of(from.idle, matrix, vector, [&](const Counts& idle) {
      return any_of(from.busy, matrix - idle.matrix, vector - idle.vector, [&](const Counts& busy) {
        return (idle + busy).sum() == matrix + vector && holds(Lanes{idle, busy});
      });
    });
  }

  // ... with all parts of some lanes that can be among so many for matrix and for vector work.
  template <class Holds>
  static bool any_of(const Counts& from, unsigned matrix, unsigned vector, const Holds& holds) {
    for (unsigned m = 0; m <= std::min(from.matrix, matrix); ++m) {
      for (unsigned v = 0; v <= std::min(from.vector, vector); ++v) {
        for (unsigned b = 0; b <= std::min(from.both, matrix + vector - m - v); ++b) {
          if (holds(Counts{m, v, b})) return true;
        }
      }
    }
    return false;
  }

  bool suffices(unsigned places, bool for_mixed, unsigned dearly) const {
    const TaskShape of_gang = waiting_.gang ? waiting_.gang->shape : TaskShape{};
    return any(of_gang, places, {idle_, all_ - idle_}, [&](const Lanes& gangs) {
      const Lanes rest = {idle_ - gangs.idle, all_ - idle_ - gangs.busy};
      if (!for_mixed) return !any_fits_in(rest.idle, waiting_.mixed.has_value());
      if (fits(*waiting_.mixed, rest.idle)) return false;
      return any(*waiting_.mixed, 1, rest, [&](const Lanes& mixeds) {
        return !any_fits_in(rest.idle - mixeds.idle, false) &&
               (dearly == 0 || places_of_gang() >= places_of_gang(idle_ - mixeds.idle) + dearly);
      });
    });
  }

  Counts all_, idle_;
  const Waiting& waiting_;
};

}  // namespace

bool may_be_idle(std::span<const GroupSpec> groups, std::span<const LaneMask> idle,
                 const Waiting& waiting) {
  const unsigned blocks = waiting.gang ? waiting.gang->blocks : 0;
  std::vector<Group> in;         // groups with idle lanes
  std::vector<unsigned> needed;  // by those: places of the gang, if nothing is reserved there for
                                 // the mixed task; kNever: none are enough
  constexpr unsigned kNever = ~0U;
  std::uint64_t sum = 0;
  unsigned places = 0;
  std::size_t hopeless = 0;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    if (idle[group] == 0) continue;
    in.emplace_back(groups[group], idle[group], waiting);
    needed.push_back(in.back().needed(blocks, false, 0).value_or(kNever));
    if (needed.back() == kNever)
      ++hopeless;
    else
      sum += needed.back();
    if (waiting.gang) places += in.back().places_of_gang();
  }
  // So many of the places that are idle have to be the mixed task's, or the gang could start.
  const unsigned dearly = waiting.gang && places >= blocks ? places - blocks + 1 : 0;
  if (hopeless == 0 && sum <= blocks && dearly == 0) return true;
  if (!waiting.mixed || hopeless > 1) return false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (hopeless == 1 && needed[i] != kNever) continue;
    const std::uint64_t others = sum - (needed[i] == kNever ? 0 : needed[i]);
    if (others > blocks) continue;
    if (in[i].needed(static_cast<unsigned>(blocks - others), true, dearly)) return true;
  }
  return false;
}

}  // namespace dovetail::laws
