#include "laws/checker/kept_lanes.h"

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
  friend bool operator==(const Counts&, const Counts&) = default;
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

// What is the same for all choices of kept lanes in one group.
class Group {
 public:
  Group(const GroupSpec& spec, LaneMask idle, const Waiting& waiting)
      : all_(count(spec, spec.all())), idle_(count(spec, idle)), waiting_(waiting) {}

  bool somebody_fits() const { return somebody_fits_in(idle_, waiting_.mixed.has_value()); }

  unsigned places_of_cohort() const { return places_of_cohort(idle_); }

  // The fewest places of the cohort that are to be kept here, so that nobody fits in the rest;
  // nothing: more than `most`. With lanes for the mixed task, these have to cost the cohort
  // `dearly` places or more.
  std::optional<unsigned> needed(unsigned most, bool for_mixed, unsigned dearly) const {
    if (!for_mixed && !somebody_fits()) return 0;
    for (unsigned places = 0; places <= most && exist(places, for_mixed); ++places) {
      if (suffices(places, for_mixed, dearly)) return places;
    }
    return std::nullopt;
  }

 private:
  bool fits(const TaskShape& shape, const Counts& lanes) const {
    return shape.whole_group ? lanes == all_ : are_enough(lanes, shape.matrix, shape.vector);
  }

  bool somebody_fits_in(const Counts& lanes, bool mixed_too) const {
    if (mixed_too && fits(*waiting_.mixed, lanes)) return true;
    return std::any_of(waiting_.shapes.begin(), waiting_.shapes.end(),
                       [&](const TaskShape& shape) { return fits(shape, lanes); });
  }

  unsigned places_of_cohort(const Counts& lanes) const {
    const auto& [shape, blocks] = *waiting_.cohort;
    if (shape.whole_group) return lanes == all_ ? 1 : 0;
    unsigned places = 0;
    while (places < blocks &&
           are_enough(lanes, (places + 1) * shape.matrix, (places + 1) * shape.vector)) {
      ++places;
    }
    return places;
  }

  // Whether the group has so many places of the cohort, and one for the mixed task, idle or not.
  bool exist(unsigned places, bool for_mixed) const {
    unsigned matrix = 0, vector = 0;
    if (places > 0) {
      const TaskShape& shape = waiting_.cohort->shape;
      if (shape.whole_group) return places == 1 && !for_mixed;
      matrix = places * shape.matrix;
      vector = places * shape.vector;
    }
    if (for_mixed) {
      if (waiting_.mixed->whole_group) return places == 0;
      matrix += waiting_.mixed->matrix;
      vector += waiting_.mixed->vector;
    }
    return are_enough(all_, matrix, vector);
  }

  // Calls holds() with every part of the idle lanes `from` that so many places can take, until it
  // does.
  template <class Holds>
  static bool any_taken(const TaskShape& shape, unsigned places, const Counts& from,
                        const Holds& holds) {
    if (shape.whole_group && places > 0) return holds(from);
    const unsigned most_matrix = places * shape.matrix, most_vector = places * shape.vector;
    for (unsigned m = 0; m <= std::min(from.matrix, most_matrix); ++m) {
      for (unsigned v = 0; v <= std::min(from.vector, most_vector); ++v) {
        for (unsigned b = 0; b <= std::min(from.both, most_matrix + most_vector - m - v); ++b) {
          if (holds(Counts{m, v, b})) return true;
        }
      }
    }
    return false;
  }

  bool suffices(unsigned places, bool for_mixed, unsigned dearly) const {
    const TaskShape of_cohort = waiting_.cohort ? waiting_.cohort->shape : TaskShape{};
    return any_taken(of_cohort, places, idle_, [&](const Counts& cohorts) {
      const Counts rest = idle_ - cohorts;
      if (!for_mixed) return !somebody_fits_in(rest, waiting_.mixed.has_value());
      if (fits(*waiting_.mixed, rest)) return false;
      return any_taken(*waiting_.mixed, 1, rest, [&](const Counts& mixeds) {
        return !somebody_fits_in(rest - mixeds, false) &&
               (dearly == 0 || places_of_cohort() >= places_of_cohort(idle_ - mixeds) + dearly);
      });
    });
  }

  Counts all_, idle_;
  const Waiting& waiting_;
};

}  // namespace

bool may_be_idle(std::span<const GroupSpec> groups, std::span<const LaneMask> idle,
                 const Waiting& waiting) {
  const unsigned blocks = waiting.cohort ? waiting.cohort->blocks : 0;
  std::vector<Group> in;         // groups with idle lanes
  std::vector<unsigned> needed;  // by those: places of the cohort, if nothing is kept there for
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
    if (waiting.cohort) places += in.back().places_of_cohort();
  }
  // So many of the places that are idle have to be the mixed task's, or the cohort could start.
  const unsigned dearly = waiting.cohort && places >= blocks ? places - blocks + 1 : 0;
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
