#include "cores/names.h"

#include <fmt/core.h>

#include <bit>
#include <charconv>
#include <optional>

namespace dovetail::cores {
namespace {

// "2V" at the front of the text, where it has that letter; nothing: there is none.
std::optional<unsigned> take_count(std::string_view& text, char letter) {
  const std::size_t at = text.find(letter);
  if (at == std::string_view::npos) return std::nullopt;
  unsigned count = 1;
  if (at > 0) {
    const char* end = text.data() + at;
    const auto [last, error] = std::from_chars(text.data(), end, count);
    if (error != std::errc() || last != end || count == 0) return std::nullopt;
  }
  text.remove_prefix(at + 1);
  return count;
}

}  // namespace

std::string shape_name(const TaskShape& shape) {
  if (shape.whole_group) return "group";
  if (shape.lanes() == 0) return "none";
  if (shape == kMatrixTask) return "C";
  if (shape == kVectorTask) return "V";
  std::string name;
  if (shape.matrix > 0) name += fmt::format("{}C", shape.matrix);
  if (shape.vector > 0) name += fmt::format("{}V", shape.vector);
  return name;
}

Result<TaskShape> parse_shape(std::string_view text) {
  if (text == "group") return kWholeGroup;
  if (text == "none") return TaskShape{};
  std::string_view rest = text;
  const unsigned matrix = take_count(rest, 'C').value_or(0);
  const unsigned vector = take_count(rest, 'V').value_or(0);
  const bool fits = matrix <= Topology::kMaxLanes && vector <= Topology::kMaxLanes &&
                    matrix + vector <= Topology::kMaxLanes;
  if (!rest.empty() || matrix + vector == 0 || !fits) {
    return fail(ErrorKind::kInvalid,
                "'{}' is no shape of a task, expected C, V, 2V, 1C2V and the like (matrix lanes, "
                "then vector lanes, {} at most), group or none",
                text, Topology::kMaxLanes);
  }
  return TaskShape{static_cast<std::uint8_t>(matrix), static_cast<std::uint8_t>(vector), false};
}

std::string lane_name(const GroupSpec& spec, GroupId group, unsigned lane) {
  const LaneMask bit = LaneMask{1} << lane;
  const bool matrix = (spec.matrix & bit) != 0, vector = (spec.vector & bit) != 0;
  const LaneMask alike = matrix && vector ? spec.matrix & spec.vector
                         : matrix         ? spec.matrix & ~spec.vector
                                          : spec.vector & ~spec.matrix;
  return fmt::format("group {} · {} {}", group,
                     matrix && vector ? "lane"
                     : matrix         ? "matrix"
                                      : "vector",
                     std::popcount(alike & (bit - 1)));
}

}  // namespace dovetail::cores
