#include "engine/option_table.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>

#include "support/places.h"

namespace dovetail::engine {
namespace {

// Stands for any member where their number is counted.
struct AnyMember {
  template <class T>
  operator T() const;  // NOLINT(google-explicit-constructor)
};

template <std::size_t... I>
constexpr bool has_members(std::index_sequence<I...>) {
  return requires { EngineOptions{(static_cast<void>(I), AnyMember{})...}; };
}

template <std::size_t Count = 0>
constexpr std::size_t members() {
  if constexpr (has_members(std::make_index_sequence<Count + 1>())) {
    return members<Count + 1>();
  } else {
    return Count;
  }
}

TEST(OptionTable, HasARowForEveryMember) {
  constexpr std::size_t kFunctions = 3;  // on_pack, on_unpacked and on_stall
  EXPECT_EQ(members(), kOptionRows.size() + kFunctions);
}

TEST(OptionTable, IsOfOnePiece) {
  std::set<std::string> names;
  for (const OptionRow& row : kOptionRows) {
    EXPECT_TRUE(names.insert(option_name(row)).second) << row.name;
    EXPECT_FALSE(row.help.empty() || row.help.ends_with('.')) << row.name;
    EXPECT_EQ(row.noun.empty(), row.names.empty()) << row.name;
    if (row.kind() == OptionKind::kText || row.kind() == OptionKind::kName) continue;
    EXPECT_LT(row.least, row.most) << row.name;
  }
  EXPECT_TRUE(check_ranges({}));
}

TEST(OptionTable, NamesTheOptionInErrors) {
  const auto named = [](std::string message) {
    return by_option_name({ErrorKind::kInvalid, std::move(message)}).message;
  };
  EXPECT_EQ(named("max_context: 5 is out of range"), "max-model-len: 5 is out of range");
  EXPECT_EQ(named("kv_blocks: 0: too few"), "kv-blocks: 0: too few");
  EXPECT_EQ(named("max_contexts: 5"), "max_contexts: 5");
  EXPECT_EQ(named("no member"), "no member");
}

TEST(OptionTable, EveryNumberIsChecked) {
  for (const OptionRow& row : kOptionRows) {
    if (row.kind() != OptionKind::kWhole && row.kind() != OptionKind::kReal) continue;
    for (const double value : {row.least, row.most}) {
      EngineOptions options;
      set_option(options, row, value);
      EXPECT_EQ(option_value(options, row), value) << row.name;
      EXPECT_TRUE(check_ranges(options)) << row.name;
    }
    // What a member of 32 bits can have is within some ranges.
    const double beyond = row.least > 0.0 ? row.least - 1.0 : row.most + 1.0;
    if (beyond > 0xffffffff || (row.most == 0xfffffffe)) continue;
    EngineOptions options;
    set_option(options, row, beyond);
    const Status refused = check_ranges(options);
    ASSERT_FALSE(refused) << row.name;
    EXPECT_EQ(refused.error().message, fmt::format("{}: {} is out of range, expected {} to {}",
                                                   row.name, beyond, row.least, row.most));
  }
}

TEST(OptionTable, NamesStandForTheirPlaces) {
  EngineOptions options;
  set_option(options, option_row("policy"), std::string_view("fair"));
  set_option(options, option_row("pin_threads"), std::string_view("never"));
  set_option(options, option_row("cache_type"), std::string_view("q8_0"));
  EXPECT_EQ(options.policy, PolicyOption::kFair);
  EXPECT_EQ(options.pin_threads, PinOption::kNever);
  EXPECT_EQ(options.cache_type, "q8_0");
  EXPECT_EQ(names_text(option_row("policy")), "fcfs, priority or fair");
}

// The part of docs/options.md that follows the sampling parameters.
std::string documentation() {
  std::string text =
      "\n# Engine options\n\n"
      "Options of the commands and keys of TOML files; those marked with * may also stand under "
      "`engine` of a\npipeline's model, by the same names without `no-`. "
      "`src/engine/option_table.h` has this table; a test compares the two.\n\n"
      "| Name | Range | What it does |\n| --- | --- | --- |\n";
  for (const OptionRow& row : kOptionRows) {
    if (row.group == OptionGroup::kProgram) continue;
    std::string name = (is_on(row) ? "`--no-" : "`--") + option_name(row) + "`";
    if (!row.alias.empty()) name += fmt::format(", `--{}`", row.alias);
    if (row.in_pipelines) name += " *";
    std::string range;
    if (row.kind() == OptionKind::kWhole || row.kind() == OptionKind::kReal) {
      range = fmt::format("{} to {}", row.least, row.most);
    } else if (row.kind() == OptionKind::kBytes) {
      range = "bytes, such as 4G";
    } else if (row.kind() == OptionKind::kName) {
      range = names_text(row);
    }
    std::string help = option_help(row);
    std::replace(help.begin(), help.end(), '\n', ' ');
    text += fmt::format("| {} | {} | {} |\n", name, range, help);
  }
  return text;
}

// With DOVETAIL_WRITE_DOCS=1 the part is written anew.
TEST(OptionTableDoc, IsInTheDocuments) {
  const auto path = test::source_dir() + "/docs/options.md";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t from = std::min(text.find("\n# Engine options\n"), text.size());
  if (std::getenv("DOVETAIL_WRITE_DOCS") != nullptr) {
    std::ofstream(path) << text.substr(0, from) << documentation();
    return;
  }
  EXPECT_EQ(text.substr(from), documentation()) << "write it anew with DOVETAIL_WRITE_DOCS=1";
}

}  // namespace
}  // namespace dovetail::engine
