#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "cli/output.h"

namespace dovetail::cli {
namespace {

OrderedWriter into(std::string& to) {
  return OrderedWriter([&to](std::string_view text) -> Status {
    to += text;
    return {};
  });
}

RC_GTEST_PROP(OrderedWriter, RestoresTheOrderAndWritesAtOnce, ()) {
  std::vector<std::size_t> order(*rc::gen::inRange<std::size_t>(0, 40));
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[*rc::gen::inRange<std::size_t>(0, i)]);
  std::string written, expected;
  OrderedWriter writer = into(written);
  std::vector<bool> there(order.size());
  for (const std::size_t index : order) {
    RC_ASSERT(writer.put(index, std::to_string(index) + ","));
    there[index] = true;
    expected.clear();
    for (std::size_t i = 0; i < there.size() && there[i]; ++i) expected += std::to_string(i) + ",";
    RC_ASSERT(written == expected);
  }
  RC_ASSERT(writer.written() == order.size());
}

TEST(OrderedWriter, WritesTheRestWithGapsAtTheEnd) {
  std::string written;
  OrderedWriter writer = into(written);
  ASSERT_TRUE(writer.put(4, "4"));
  ASSERT_TRUE(writer.put(0, "0"));
  ASSERT_TRUE(writer.put(2, "2"));
  EXPECT_EQ(written, "0");
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(written, "024");
}

TEST(OrderedWriter, HandsErrorsOn) {
  OrderedWriter writer(
      [](std::string_view) -> Status { return fail(ErrorKind::kIo, "the disk is full"); });
  EXPECT_TRUE(writer.put(1, "1"));
  EXPECT_EQ(writer.put(0, "0").error().message, "the disk is full");
}

}  // namespace
}  // namespace dovetail::cli
