#include "base/result.h"

#include <gtest/gtest.h>

namespace dovetail {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return fail(ErrorKind::kInvalid, "value {}: expected an even number", value);
  return value / 2;
}

TEST(Result, CarriesTheValue) { EXPECT_EQ(half(8), 4); }

TEST(Result, CarriesKindAndMessage) {
  const Result<int> result = half(7);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(result.error().message, "value 7: expected an even number");
}

}  // namespace
}  // namespace dovetail
