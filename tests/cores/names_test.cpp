#include "cores/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dovetail::cores {
namespace {

using testing::HasSubstr;

TEST(Names, OfShapes) {
  struct Case {
    const char* text;
    TaskShape shape;
    const char* written;
  };
  for (const Case& one :
       {Case{"C", kMatrixTask, "C"}, Case{"1C", kMatrixTask, "C"}, Case{"V", kVectorTask, "V"},
        Case{"2V", {0, 2, false}, "2V"}, Case{"1C2V", {1, 2, false}, "1C2V"},
        Case{"CV", {1, 1, false}, "1C1V"}, Case{"32C32V", {32, 32, false}, "32C32V"},
        Case{"group", kWholeGroup, "group"}, Case{"none", {}, "none"}}) {
    const auto shape = parse_shape(one.text);
    ASSERT_TRUE(shape) << one.text;
    EXPECT_EQ(*shape, one.shape) << one.text;
    EXPECT_EQ(shape_name(*shape), one.written);
  }
}

TEST(Names, WhatIsNoShape) {
  for (const char* text : {"", "1", "0C", "c", "1V2C", "1C2", "-1C", "65C", "33C32V", "1C2V ",
                           "groups", "1C4294967295V", "99999999999C", "1L"}) {
    const auto shape = parse_shape(text);
    ASSERT_FALSE(shape) << text;
    EXPECT_THAT(shape.error().message, HasSubstr(std::string("'") + text + "' is no shape"));
    EXPECT_THAT(shape.error().message, HasSubstr("expected C, V, 2V, 1C2V"));
  }
}

TEST(Names, OfLanes) {
  const auto names = [](const char* text) {
    const auto topology = *Topology::parse(text);
    std::vector<std::string> names;
    for (GroupId group = 0; group < topology.groups().size(); ++group) {
      const GroupSpec& spec = topology.groups()[group];
      for (unsigned lane = 0; (spec.all() >> lane) != 0; ++lane) {
        names.push_back(lane_name(spec, group, lane));
      }
    }
    return names;
  };
  EXPECT_THAT(names("(1C2V)+(2L)"),
              testing::ElementsAre("group 0 · matrix 0", "group 0 · vector 0", "group 0 · vector 1",
                                   "group 1 · lane 0", "group 1 · lane 1"));
  EXPECT_THAT(names("(1V1L1C1L)"), testing::ElementsAre("group 0 · vector 0", "group 0 · lane 0",
                                                        "group 0 · matrix 0", "group 0 · lane 1"));
}

}  // namespace
}  // namespace dovetail::cores
