#include "cli/values.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace dovetail::cli {
namespace {

TEST(ParseBytes, ReadsSizes) {
  const std::pair<const char*, std::uint64_t> table[] = {
      {"0", 0},
      {"65536", 65536},
      {"512M", 512ULL << 20},
      {"4G", 4ULL << 30},
      {"4g", 4ULL << 30},
      {"1KiB", 1024},
      {"2kb", 2048},
      {"3T", 3ULL << 40},
      {"7B", 7},
      {"18446744073709551615", ~0ULL},
  };
  for (const auto& [text, bytes] : table) {
    const auto parsed = parse_bytes(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, bytes) << text;
  }
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "M", "-1", "1.5G", "4 G", "4GG", "4iB", "18446744073709551616",
                           "99999999999T", "0x10"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().message,
              fmt::format("'{}' is no size, expected bytes such as 4G, 512M or 65536", text));
  }
}

TEST(ParseInteger, SaysWhatIsWrong) {
  EXPECT_EQ(parse_integer("010", 0, 20).value(), 10);  // never octal
  EXPECT_EQ(parse_integer("-3", -5, 5).value(), -3);
  EXPECT_EQ(parse_integer("6", 0, 5).error().message, "'6' is out of range, expected 0 to 5");
  for (const char* text : {"", "x", "1x", " 1", "1.0", "+1", "9223372036854775808"})
    EXPECT_EQ(parse_integer(text, 0, 5).error().message,
              fmt::format("'{}' is not an integer, expected 0 to 5", text));
}

TEST(ParseNumber, KnowsOpenAndClosedEnds) {
  EXPECT_EQ(parse_number("0", 0.0F, 1.0F).value(), 0.0F);
  EXPECT_EQ(parse_number("1e-3", 0.0F, 1.0F, true).value(), 1e-3F);
  EXPECT_EQ(parse_number("0", 0.0F, 1.0F, true).error().message,
            "'0' is out of range, expected above 0 to 1");
  EXPECT_EQ(parse_number("1.01", 0.0F, 1.0F).error().message,
            "'1.01' is out of range, expected 0 to 1");
  for (const char* text : {"nan", "inf", "-inf"}) EXPECT_FALSE(parse_number(text, -1.0F, 1.0F));
  EXPECT_EQ(parse_number("hot", 0.0F, 1.0F).error().message,
            "'hot' is not a number, expected 0 to 1");
}

TEST(ParseBias, ReadsIdAndBias) {
  EXPECT_EQ(parse_bias("42=-1.5").value(), std::pair(42, -1.5F));
  for (const char* text : {"42", "=1", "42=", "a=1", "-1=1", "1=101", "1=2=3"})
    EXPECT_FALSE(parse_bias(text)) << text;
}

TEST(ParseIds, ReadsLists) {
  EXPECT_EQ(parse_ids("1, 2,3 ").value(), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_TRUE(parse_ids("  ").value().empty());
  for (const char* text : {"1,,2", "1,", ",", "1 2", "-1", "x"})
    EXPECT_FALSE(parse_ids(text)) << text;
}

RC_GTEST_PROP(ParseIds, ReadsWhatIsWritten, ()) {
  const auto ids = *rc::gen::container<std::vector<std::int32_t>>(
      rc::gen::inRange(0, std::numeric_limits<std::int32_t>::max()));
  RC_ASSERT(parse_ids(fmt::format("{}", fmt::join(ids, ","))).value() == ids);
}

TEST(ShowBytes, RoundsToUnits) {
  EXPECT_EQ(show_bytes(1023), "1023 bytes");
  EXPECT_EQ(show_bytes(1536), "1.5 KiB");
  EXPECT_EQ(show_bytes(4ULL << 30), "4.0 GiB");
}

TEST(AddValue, TakesValuesAsTheyAreWritten) {
  CLI::App app;
  std::string prompt;
  std::vector<std::string> stops;
  add_text(app, "-p,--prompt,PROMPT", prompt, "");
  add_value(
      app, "--stop", kText,
      [&](const std::string& text) -> Status {
        stops.push_back(text);
        return {};
      },
      "", true);
  // From the back. What CLI11 would split or rewrite stays whole.
  app.parse(std::vector<std::string>{"{}", "{}", "--stop", "[a,b]", "--stop", "-1", "--stop"});
  EXPECT_EQ(stops, (std::vector<std::string>{"-1", "[a,b]", "{}"}));
  EXPECT_EQ(prompt, "{}");
}

}  // namespace
}  // namespace dovetail::cli
