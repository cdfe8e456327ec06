#include "cores/topology.h"

#include <gtest/gtest.h>

#include <vector>

namespace dovetail::cores {
namespace {

TEST(Topology, ReadsGroupsOfTypedLanes) {
  const auto npu = Topology::parse("24x(1C2V)");
  ASSERT_TRUE(npu) << npu.error().message;
  ASSERT_EQ(npu->groups().size(), 24U);
  EXPECT_EQ(npu->groups()[23], (GroupSpec{0b001, 0b110}));
  EXPECT_EQ(npu->lanes(), 72U);
  EXPECT_EQ(npu->text(), "24x(1C2V)");
}

TEST(Topology, TextReadsBackAsTheSame) {
  for (const char* text : {"1x(1L)", "8x(1C2V)+2x(16L)", "1x(64L)", "2x(3V1C)", "65536x(1C)",
                           "1x(2C1L1V)+1x(2C1L2V)"}) {
    const auto topology = Topology::parse(text);
    ASSERT_TRUE(topology) << text << ": " << topology.error().message;
    EXPECT_EQ(topology->text(), text);
  }
  EXPECT_EQ(Topology::parse("(1C2V)+(1C2V)")->text(), "2x(1C2V)");
}

struct Fault {
  const char* text;
  const char* message;
};

class TopologyFaults : public testing::TestWithParam<Fault> {};

TEST_P(TopologyFaults, AreToldByPlace) {
  const auto topology = Topology::parse(GetParam().text);
  ASSERT_FALSE(topology);
  EXPECT_EQ(topology.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(topology.error().message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, TopologyFaults,
    testing::Values(
        Fault{"", "topology '', character 1: expected '(' and lanes, as in (1C2V)"},
        Fault{"24(1C2V)", "topology '24(1C2V)', character 3: expected 'x' and a group"},
        Fault{"2x1C", "topology '2x1C', character 3: expected '(' and lanes, as in (1C2V)"},
        Fault{"2x(1C2V", "topology '2x(1C2V', character 8: expected a number of lanes or ')'"},
        Fault{"(C)", "topology '(C)', character 2: expected a number from 1 to 64"},
        Fault{"(0C)", "topology '(0C)', character 2: expected a number from 1 to 64"},
        Fault{"(40C40V)", "topology '(40C40V)', character 7: a group of more than 64 lanes"},
        Fault{"(65L)", "topology '(65L)', character 2: expected a number from 1 to 64"},
        Fault{"(1K)",
              "topology '(1K)', character 3: expected C, V or L behind the number of lanes"},
        Fault{"(1L)(1L)", "topology '(1L)(1L)', character 5: expected '+' or the end"},
        Fault{"65536x(1L)+(1L)",
              "topology '65536x(1L)+(1L)', character 16: more than 65536 groups"},
        Fault{"99999999999x(1L)",
              "topology '99999999999x(1L)', character 1: expected a number from 1 to 65536"}));

struct Spread {
  std::vector<std::uint32_t> cores;  // by cache
  std::uint32_t lanes;
  const char* topology;
  std::vector<std::size_t> of_lanes;  // the core of each; empty: not looked at
};

class TopologyOfCaches : public testing::TestWithParam<Spread> {};

TEST_P(TopologyOfCaches, HasAGroupForEach) {
  const Topology made = Topology::of_caches(GetParam().cores, GetParam().lanes);
  EXPECT_EQ(made.text(), GetParam().topology);
  EXPECT_EQ(made.lanes(), GetParam().lanes);
  for (std::size_t lane = 0; lane < GetParam().of_lanes.size(); ++lane)
    EXPECT_EQ(made.core_of(lane), GetParam().of_lanes[lane]) << lane;
}

INSTANTIATE_TEST_SUITE_P(
    All, TopologyOfCaches,
    testing::Values(
        // One cache.
        Spread{{4}, 1, "1x(1L)", {0}}, Spread{{4}, 4, "1x(4L)", {0, 1, 2, 3}},
        Spread{{4}, 6, "1x(6L)", {0, 1, 2, 3, 0, 1}},
        // Fewer lanes than cores: the first cores.
        Spread{{8, 8}, 5, "1x(5L)", {0, 1, 2, 3, 4}},
        Spread{{8, 8}, 12, "1x(8L)+1x(4L)", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
        Spread{{8, 8}, 16, "2x(8L)", {}},
        Spread{{3, 5, 2}, 7, "1x(3L)+1x(4L)", {0, 1, 2, 3, 4, 5, 6}},
        Spread{{3, 5, 2}, 10, "1x(3L)+1x(5L)+1x(2L)", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
        // More: each cache has its share of the further ones, and they stay with it.
        Spread{{3, 5, 2}, 14, "1x(5L)+1x(6L)+1x(3L)", {0, 1, 2, 0, 1, 3, 4, 5, 6, 7, 3, 8, 9, 8}},
        Spread{{3, 5, 2}, 19, "1x(6L)+1x(9L)+1x(4L)", {}},
        Spread{{3, 5, 2}, 20, "1x(6L)+1x(10L)+1x(4L)", {}},
        Spread{{1, 1}, 5, "1x(3L)+1x(2L)", {0, 0, 0, 1, 1}}, Spread{{8, 8}, 24, "2x(12L)", {}},
        // More in a cache than a group may have.
        Spread{{64}, 64, "1x(64L)", {}}, Spread{{96}, 65, "1x(33L)+1x(32L)", {}},
        Spread{{96}, 96, "2x(48L)", {}}, Spread{{2}, 200, "4x(50L)", {}},
        Spread{{70, 4}, 74, "2x(35L)+1x(4L)", {}},
        // Where the system does not say.
        Spread{{}, 3, "1x(3L)", {0, 1, 2}}, Spread{{}, 100, "2x(50L)", {}}));

TEST(Topology, ThisMachineHasAsManyLanesAsAreWanted) {
  const auto cores = static_cast<std::uint32_t>(Topology::of_machine().lanes());
  for (const std::uint32_t lanes : {1U, cores, cores + 1, 3 * cores + 2}) {
    const Topology here = Topology::of_machine(lanes);
    EXPECT_EQ(here.lanes(), lanes);
    for (std::size_t lane = 0; lane < lanes; ++lane) EXPECT_LT(here.core_of(lane), cores);
  }
  EXPECT_EQ(Topology::of_machine(cores).text(), Topology::of_machine().text());
}

TEST(Topology, ThisMachineHasGeneralLanes) {
  const Topology here = Topology::of_machine();
  ASSERT_GE(here.groups().size(), 1U);
  for (const GroupSpec& group : here.groups()) {
    EXPECT_EQ(group.matrix, group.vector);
    EXPECT_NE(group.matrix, 0U);
  }
  EXPECT_EQ(Topology::parse(here.text())->lanes(), here.lanes());
}

}  // namespace
}  // namespace dovetail::cores
