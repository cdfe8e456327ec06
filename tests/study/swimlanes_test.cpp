#include "study/swimlanes.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dovetail::study {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

cores::LaneTrace small_trace() {
  cores::LaneTrace trace;
  trace.running = {{0, 0, 0, 0, 0, 2500}, {0, 0, 0, 1, 0, 2500}, {1, 3, 1, 2, 1000, 4000}};
  trace.pending = {{2, 0, 0, 1, 500, 2500}};
  trace.reserved = {{1, 0, 0, 1000}};
  trace.counters = {{"tasks", {{0, 1.0}, {1000, 3.0}}}};
  trace.name = [](cores::TaskId task) {
    return task == 0 ? "say \"a\\b\" <&>" : fmt::format("t{}", task);
  };
  return trace;
}

std::string drawn(const cores::Topology& topology, const cores::LaneTrace& trace,
                  const SwimlaneOptions& options) {
  std::string text;
  write_swimlanes(topology, trace, options, [&](std::string_view piece) { text += piece; });
  return text;
}

TEST(Swimlanes, DrawEachPart) {
  const std::string svg =
      drawn(*cores::Topology::parse("2x(1C2V)"), small_trace(), {"A & B", 1000, 256});
  EXPECT_THAT(svg, AllOf(HasSubstr("A &amp; B"), HasSubstr("group 1 · vector 1"),
                         HasSubstr("&lt;&amp;&gt;, block 0, 0.000 to 2.500 us"),
                         HasSubstr("t1, block 3, 1.000 to 4.000 us"),
                         HasSubstr("t2, block 0, parked"), Not(HasSubstr("of 6 lanes"))));
}

TEST(Swimlanes, DrawSoManyLanes) {
  const std::string svg = drawn(*cores::Topology::parse("2x(1C2V)"), small_trace(), {"", 1000, 2});
  EXPECT_THAT(svg, AllOf(HasSubstr("the first 2 of 6 lanes"), HasSubstr("group 0 · vector 0"),
                         Not(HasSubstr("group 0 · vector 1")), Not(HasSubstr("t1, block 3"))));
}

}  // namespace
}  // namespace dovetail::study
