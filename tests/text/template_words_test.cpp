// The filters, tests and methods of templates are those that the users' documentation lists.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/places.h"
#include "text/golden_tokenizers.h"
#include "text/jinja_builtins.h"

namespace dovetail::text::jinja {
namespace {

std::string listed(const std::vector<std::string_view>& names) {
  return fmt::format("| `{}` |\n", fmt::join(names, "`, `"));
}

TEST(TemplateWords, AreThoseOfTheDocumentation) {
  const std::string page = testing::read_file(test::source_dir() + "/docs/pipelines.md");
  EXPECT_THAT(page, ::testing::HasSubstr("| filters " + listed(filter_names())));
  EXPECT_THAT(page, ::testing::HasSubstr("| tests (`is ...`) " + listed(test_names())));
  EXPECT_THAT(page, ::testing::HasSubstr("| methods of texts " + listed(string_method_names())));
}

// Look-ups are binary searches.
TEST(TemplateWords, AreSortedAndFound) {
  for (const auto& names : {filter_names(), test_names(), string_method_names()}) {
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  }
  for (const std::string_view name : filter_names()) {
    ASSERT_NE(find_filter(name), nullptr) << name;
    EXPECT_EQ(find_filter(name)->name, name);
  }
  for (const std::string_view name : test_names()) EXPECT_NE(find_test(name), nullptr) << name;
  Context context;
  for (const std::string_view name : string_method_names()) {
    EXPECT_TRUE(find_method(context, Value::of("a"), name)) << name;
  }
}

}  // namespace
}  // namespace dovetail::text::jinja
