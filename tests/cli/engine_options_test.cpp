#include "cli/engine_options.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace dovetail::cli {
namespace {

// What the options say of the arguments; empty where they take them.
std::string parse(EngineOptions& options, std::vector<std::string> arguments) {
  CLI::App app;
  add_engine_options(app, options);
  try {
    std::reverse(arguments.begin(), arguments.end());  // the last is parsed first
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(EngineOptions, ReadTheTableOfEngineOptions) {
  using engine::OptionKind;
  for (const engine::OptionRow& row : engine::kOptionRows) {
    EngineOptions options;
    std::string name = (engine::is_on(row) ? "--no-" : "--") + engine::option_name(row);
    if (row.group == engine::OptionGroup::kProgram) {
      EXPECT_NE(parse(options, {name}), "") << name;
    } else if (row.kind() == OptionKind::kFlag) {
      EXPECT_EQ(parse(options, {name}), "");
      EXPECT_NE(engine::option_value(options, row), engine::option_value({}, row)) << name;
      // As a file may say.
      EXPECT_EQ(parse(options, {name + "=false"}), "");
      EXPECT_EQ(engine::option_value(options, row), engine::option_value({}, row)) << name;
    } else if (row.kind() == OptionKind::kName) {
      EXPECT_EQ(parse(options, {name, std::string(row.names.back())}), "");
      EXPECT_EQ(
          parse(options, {name, "lifo"}),
          fmt::format("{}: 'lifo' is no {}, expected {}", name, row.noun, engine::names_text(row)));
    } else if (row.kind() != OptionKind::kText) {
      EXPECT_EQ(parse(options, {name, fmt::format("{:.0f}", row.most)}), "");
      EXPECT_EQ(engine::option_value(options, row), row.most) << name;
      const std::string beyond = fmt::format("{:.0f}", 2.0 * row.most);
      const std::string refused = parse(options, {name + "=" + beyond});
      EXPECT_THAT(refused, testing::HasSubstr(fmt::format("'{}' is", beyond))) << name;
      EXPECT_THAT(refused, testing::HasSubstr("expected"));
    }
  }
}

}  // namespace
}  // namespace dovetail::cli
