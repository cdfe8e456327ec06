#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/places.h"
#include "text/chat_template.h"

namespace dovetail::text {
namespace {

nlohmann::ordered_json golden_cases() {
  const std::string path = test::source_dir() + "/tests/golden/templates/cases.json";
  std::ifstream file(path);
  if (!file) ADD_FAILURE() << "cannot open " << path;
  return nlohmann::ordered_json::parse(file);
}

// "2024-07-26T12:34:56" or a prefix of it.
std::tm parse_time(const std::string& text) {
  std::tm time{};
  strptime(text.c_str(), text.size() > 10 ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d", &time);
  time.tm_isdst = -1;
  mktime(&time);  // fills in the day of the week
  return time;
}

// Every case was rendered by Jinja itself, set up as transformers sets it up.
TEST(ChatTemplateGolden, RendersAsJinjaDoes) {
  const nlohmann::ordered_json cases = golden_cases();
  ASSERT_GT(cases.size(), 0u);
  for (const auto& entry : cases) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    RenderOptions options;
    if (entry.contains("now")) {
      options.now = [now = entry["now"].get<std::string>()] { return parse_time(now); };
    }
    const auto parsed = ChatTemplate::parse(entry["template"].get<std::string>());
    const Result<std::string> rendered =
        parsed ? parsed->render(entry["variables"], options)
               : Result<std::string>(tl::unexpected<Error>(parsed.error()));
    // Marks change neither a text nor an error.
    const Result<MarkedText> marked =
        parsed ? parsed->render_marked(entry["variables"], options)
               : Result<MarkedText>(tl::unexpected<Error>(parsed.error()));
    EXPECT_EQ(marked ? marked->text : marked.error().message,
              rendered ? *rendered : rendered.error().message);
    if (entry.contains("error")) {
      EXPECT_FALSE(rendered.has_value()) << *rendered;
      if (rendered) continue;
      EXPECT_THAT(rendered.error().message,
                  testing::MatchesRegex("chat template:[0-9]+:[0-9]+: .*"));
      EXPECT_THAT(rendered.error().message, testing::HasSubstr(entry["error"].get<std::string>()));
    } else {
      EXPECT_EQ(rendered ? *rendered : rendered.error().message,
                entry["expected"].get<std::string>());
    }
  }
}

}  // namespace
}  // namespace dovetail::text
