#include "base/json_value.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dovetail {
namespace {

template <class T>
std::string words(const Wanted<T>& wanted) {
  return wanted ? fmt::format("{}", *wanted) : wanted.error();
}

// Short names for tests.
struct SortedMembers {
  using Json = nlohmann::json;
};
struct OrderedMembers {
  using Json = nlohmann::ordered_json;
};

template <class Members>
class JsonValue : public testing::Test {};
using Objects = testing::Types<SortedMembers, OrderedMembers>;
TYPED_TEST_SUITE(JsonValue, Objects);

TYPED_TEST(JsonValue, IsAnIntegerWithinItsRange) {
  const auto read = [](const char* text, std::int64_t least, std::int64_t most) {
    return words(as_integer(TypeParam::Json::parse(text), least, most));
  };
  EXPECT_EQ(read("-2", -2, 5), "-2");
  EXPECT_EQ(read("5", -2, 5), "5");
  for (const char* wrong : {"-3", "6", "4.0", "\"4\"", "true", "[4]", "null"})
    EXPECT_EQ(read(wrong, -2, 5), "an integer from -2 to 5") << wrong;
  // As a signed number it would be -1.
  EXPECT_EQ(read("18446744073709551615", -2, 5), "an integer from -2 to 5");
  EXPECT_EQ(read("9223372036854775807", 0, INT64_MAX), "9223372036854775807");
}

TYPED_TEST(JsonValue, IsANumberWithinItsRange) {
  const auto read = [](const char* text, const NumberRange& range) {
    return words(as_number<float>(TypeParam::Json::parse(text), range));
  };
  EXPECT_EQ(read("0", {0.0, 1.0}), "0");
  EXPECT_EQ(read("1", {0.0, 1.0}), "1");
  EXPECT_EQ(read("0.5", {0.0, 1.0, true}), "0.5");
  for (const char* wrong : {"-0.5", "1.5", "\"1\"", "true", "[]", "1e300"})
    EXPECT_EQ(read(wrong, {0.0, 1.0}), "a number from 0 to 1") << wrong;
  // What rounds to an excluded bound is out, as the number that will be used.
  EXPECT_EQ(read("1e-60", {0.0, 1.0, true}), "a number above 0 and at most 1");
  EXPECT_EQ(words(as_number<double>(TypeParam::Json::parse("1e-60"), NumberRange{0.0, 1.0, true})),
            "1e-60");
  // Bounds are written as what they are.
  EXPECT_EQ(words(as_number<float>(TypeParam::Json::parse("2"), RangeOf<float>{0.001F, 1.0F})),
            "a number from 0.001 to 1");
}

TYPED_TEST(JsonValue, IsOfItsKind) {
  EXPECT_EQ(words(as_bool(typename TypeParam::Json(false))), "false");
  EXPECT_EQ(words(as_bool(typename TypeParam::Json(1))), "true or false");
  EXPECT_EQ(words(as_string(typename TypeParam::Json("a"))), "a");
  EXPECT_EQ(words(as_string(typename TypeParam::Json(true))), "a string");
}

}  // namespace
}  // namespace dovetail
