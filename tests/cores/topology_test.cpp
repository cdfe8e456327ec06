#include "cores/topology.h"

#include <gtest/gtest.h>

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
