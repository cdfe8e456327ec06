#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "support/places.h"
#include "text/chat_template.h"

namespace dovetail::text {
namespace {

constexpr std::array<std::string_view, 40> kPieces = {
    "{{",        "}}",    "{%",      "%}",        "{#",       "#}",          "-%}",      "{%-",
    "(",         ")",     "[",       "]",         "{",        "}",           "|",        ".",
    "'",         "\"",    "\\",      " if ",      " else ",   " for ",       " in ",     " is ",
    " not ",     "**",    "//",      "~",         "%",        "::-1",        "loop",     "first()",
    "{% raw %}", "|list", "|tojson", "|map('a')", "range(9)", "99999999999", "\xF0\x9F", "\xFF"};

class TemplateMutator {
 public:
  explicit TemplateMutator(uint32_t seed) : random_(seed) {}

  size_t below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  std::string mutate(std::string text, const std::string& other) {
    for (size_t rounds = 1 + below(4); rounds > 0; --rounds) {
      const size_t at = below(text.size() + 1);
      const size_t span = std::min(below(24), text.size() - at);
      switch (below(6)) {
        case 0:
          text.erase(at, span);
          break;
        case 1:
          text.insert(at, kPieces[below(kPieces.size())]);
          break;
        case 2:
          text.insert(below(text.size() + 1), text.substr(at, span));
          break;
        case 3:
          if (at < text.size()) text[at] = static_cast<char>(random_());
          break;
        case 4:
          text.replace(at, span, other.substr(below(other.size() + 1), below(60)));
          break;
        default:
          text.resize(at);
      }
    }
    return text;
  }

 private:
  std::mt19937 random_;  // the same everywhere, unlike the distributions
};

TEST(ChatTemplateMutation, BrokenTemplatesEndInTextOrInAnErrorWithItsPlace) {
  std::ifstream file(test::source_dir() + "/tests/golden/templates/cases.json");
  ASSERT_TRUE(file);
  const auto cases = nlohmann::ordered_json::parse(file);
  TemplateMutator mutator(20240607);
  size_t refused = 0;
  size_t failed = 0;
  size_t rendered = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto& entry = cases[mutator.below(cases.size())];
    const auto& other = cases[mutator.below(cases.size())];
    const std::string source =
        mutator.mutate(entry["template"].get<std::string>(), other["template"].get<std::string>());
    SCOPED_TRACE(testing::PrintToString(source));
    const auto place = testing::MatchesRegex("chat template:[0-9]+:[0-9]+: (.|\n)*");
    const auto parsed = ChatTemplate::parse(source);
    if (!parsed) {
      ++refused;
      ASSERT_THAT(parsed.error().message, place);
      continue;
    }
    const auto text = parsed->render(entry["variables"]);
    if (!text) {
      ++failed;
      ASSERT_THAT(text.error().message, place);
    } else {
      ++rendered;
    }
  }
  // All three outcomes must be common, or the mutations miss something.
  EXPECT_GT(refused, 200u);
  EXPECT_GT(failed, 20u);
  EXPECT_GT(rendered, 200u);
}

}  // namespace
}  // namespace dovetail::text
