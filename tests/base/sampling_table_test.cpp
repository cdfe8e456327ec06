#include "base/sampling_table.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "support/places.h"
#include "support/sampling_samples.h"

namespace dovetail {
namespace {

bool is_within(const SamplingRow& row, double value) {
  return (row.least_excluded ? value > row.least : value >= row.least) && value <= row.most;
}

TEST(SamplingTable, IsOfOnePiece) {
  std::set<std::string_view> names;
  std::set<std::size_t> places;
  std::size_t placed = 0;
  for (const SamplingRow& row : kSamplingRows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    if (!row.http_alias.empty()) {
      EXPECT_TRUE(names.insert(row.http_alias).second);
    }
    EXPECT_LT(row.least, row.most) << row.name;
    EXPECT_TRUE(is_within(row, row.neutral())) << row.name;
    if (row.conversation) {
      EXPECT_TRUE(is_within(row, static_cast<double>(*row.conversation))) << row.name;
      EXPECT_TRUE(row.recommended()) << row.name;
    }
    EXPECT_FALSE(row.help.empty() || row.help.ends_with('.')) << row.name;
    if (!row.cache_place) continue;
    places.insert(*row.cache_place);
    ++placed;
  }
  ASSERT_EQ(places.size(), placed);
  EXPECT_EQ(*places.rbegin() + 1, placed) << "no gaps";
}

// The rows of docs/options.md as the table has them.
std::string documentation() {
  std::string text =
      "| Name | Range | Neutral | In GGUF files | Talk | What it does |\n"
      "| --- | --- | --- | --- | --- | --- |\n";
  const auto number = [](const SamplingRow& row, float value) {
    return sampling_text(row, static_cast<double>(value));
  };
  for (const SamplingRow& row : kSamplingRows) {
    std::string name = fmt::format("`{}`", row.name);
    if (!row.http_alias.empty()) name += fmt::format(", over HTTP also `{}`", row.http_alias);
    std::string range = fmt::format("{}{} to {}", row.least_excluded ? "above " : "",
                                    sampling_text(row, row.least), sampling_text(row, row.most));
    if (row.minus_one) range += "; -1 over HTTP and in models' files: neutral";
    text += fmt::format("| {} | {}{} | {} | {} | {} | {} |\n", name, row.whole() ? "whole, " : "",
                        range, sampling_text(row, row.neutral()),
                        row.recommended() ? fmt::format("`{}`", row.gguf_key) : "",
                        row.conversation ? number(row, *row.conversation) : "", row.help);
  }
  return text;
}

TEST(SamplingTable, IsInTheDocuments) {
  std::ifstream file(test::source_dir() + "/docs/options.md");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = text.find("| Name |"), end = text.find("\n# Engine options\n");
  ASSERT_LT(begin, end);
  EXPECT_EQ(text.substr(begin, end - begin), documentation());
}

TEST(SamplingValues, AreTheirOwnBeforeOthers) {
  SamplingValues given, recommended;
  EXPECT_FALSE(given.any());
  given[sampling_row("top_k")] = 7;
  EXPECT_TRUE(given.any());
  recommended[sampling_row("top_k")] = 40;
  recommended[sampling_row("top_p")] = 0.5;
  const SamplingValues both = given.or_else(recommended);
  EXPECT_EQ(both[sampling_row("top_k")], 7);
  EXPECT_EQ(both[sampling_row("top_p")], 0.5);
  EXPECT_FALSE(both[sampling_row("min_p")]);
  EXPECT_FALSE(given[sampling_row("top_p")]);
}

TEST(SamplingTable, ValuesAreWithinTheirRanges) {
  const auto said = [](const SamplingRow& row, double value) {
    const Status ok = check_sampling_value(row, value);
    return ok ? std::string("fine") : ok.error().message;
  };
  EXPECT_EQ(said(sampling_row("temperature"), 0.0), "fine");
  EXPECT_EQ(said(sampling_row("temperature"), -1.0),
            "temperature: -1 is out of range, expected 0 to 100");
  EXPECT_EQ(said(sampling_row("top_k"), 1e12),
            "top_k: 1000000000000 is out of range, expected 0 (off) or more");
  // As the float that it becomes.
  EXPECT_EQ(said(sampling_row("top_p"), 1e-60),
            "top_p: 0 is out of range, expected above 0 and at most 1");
}

TEST(SamplingText, HasNoMoreDigitsThanAFloatNeeds) {
  EXPECT_EQ(option_name(sampling_row("repetition_penalty")), "repetition-penalty");
  EXPECT_EQ(sampling_text(sampling_row("top_k"), 40.0), "40");
  EXPECT_EQ(sampling_text(sampling_row("top_p"), static_cast<double>(0.95F)), "0.95");
  EXPECT_EQ(sampling_text(sampling_row("temperature"), 1.0), "1");
}

TEST(SamplingValues, GiveParametersTheseAndNoOthers) {
  for (const SamplingRow& row : kSamplingRows) {
    SamplingValues values;
    values[row] = test::sample_of(row);
    const SamplingParams params = values.params();
    for (const SamplingRow& other : kSamplingRows) {
      const double expected = &other == &row ? test::sample_of(row) : other.neutral();
      EXPECT_EQ(sampling_value(params, other), expected) << row.name << ", " << other.name;
    }
  }
}

}  // namespace
}  // namespace dovetail
