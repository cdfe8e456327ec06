#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "text/golden_tokenizers.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace dovetail::text {
namespace {

using testing::golden_names;
using testing::golden_strings;
using testing::GoldenTokenizer;
using testing::load_golden;

class TokenizerGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(TokenizerGolden, EncodesAsTheLibraryDoes) {
  const GoldenTokenizer golden = load_golden(GetParam());
  const auto strings = golden_strings();
  const auto& cases = golden.cases["strings"];
  ASSERT_GE(strings.size(), 200U);
  ASSERT_EQ(strings.size(), cases.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto& expected = cases[i];
    const auto plain = expected["ids"].get<std::vector<TokenId>>();
    SCOPED_TRACE("string " + std::to_string(i) + ": " + repair_utf8(strings[i]));
    EXPECT_EQ(golden.tokenizer.encode(strings[i], {.add_special = false}), plain);
    EXPECT_EQ(golden.tokenizer.encode(strings[i]), expected.value("full", plain));
    EXPECT_EQ(golden.tokenizer.encode(strings[i], {.add_special = false, .parse_special = false}),
              expected.value("unparsed", plain));
  }
}

TEST_P(TokenizerGolden, DecodesAsTheLibraryDoes) {
  const GoldenTokenizer golden = load_golden(GetParam());
  const auto check = [&](const nlohmann::json& expected, const std::vector<TokenId>& ids) {
    EXPECT_EQ(golden.tokenizer.decode(ids, false), expected["decoded"].get<std::string>());
    EXPECT_EQ(golden.tokenizer.decode(ids, true), expected["skipped"].get<std::string>());
  };
  for (const auto& expected : golden.cases["strings"]) {
    check(expected, expected.value("full", expected["ids"].get<std::vector<TokenId>>()));
  }
  for (const auto& expected : golden.cases["random"]) {
    const auto ids = expected["ids"].get<std::vector<TokenId>>();
    SCOPED_TRACE(expected["ids"].dump());
    check(expected, ids);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden, ::testing::ValuesIn(golden_names()),
                         [](const auto& param) {
                           std::string name = param.param;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace dovetail::text
