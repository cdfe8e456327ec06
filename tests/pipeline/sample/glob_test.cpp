#include "pipeline/sample/glob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace dovetail::pipeline {
namespace {

using testing::ElementsAre;

TEST(Glob, Matches) {
  const std::tuple<const char*, const char*, bool> cases[] = {{"a", "a", true},
                                                              {"a", "b", false},
                                                              {"*", "abc", true},
                                                              {"*.txt", "a.txt", true},
                                                              {"*.txt", "a.txtx", false},
                                                              {"*.txt", "d/a.txt", false},
                                                              {"**/*.txt", "a.txt", true},
                                                              {"**/*.txt", "d/e/a.txt", true},
                                                              {"d/**", "d/e/f", true},
                                                              {"d/**/f", "d/f", true},
                                                              {"d/**/f", "e/f", false},
                                                              {"?", "a", true},
                                                              {"?", "", false},
                                                              {"[a-c]x", "bx", true},
                                                              {"[!a-c]x", "bx", false},
                                                              {"[!a-c]x", "dx", true},
                                                              {"[]x]", "]", true},
                                                              {"[ab", "[ab", true},
                                                              {"*", ".hidden", false},
                                                              {".*", ".hidden", true},
                                                              {"**/x", ".git/x", false},
                                                              {"a*b*c", "aXbYbZc", true},
                                                              {"a*b*c", "aXbYbZ", false},
                                                              {"**", "a/b", true},
                                                              {"./a//b", "a/b", true},
                                                              {"*[0-9]", "file10", true},
                                                              {"", "", true}};
  for (const auto& [pattern, path, matches] : cases) {
    EXPECT_EQ(glob_matches(pattern, path), matches) << pattern << " " << path;
  }
}

TEST(Glob, ManyStarsDoNotRunAway) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "a*";
  EXPECT_FALSE(glob_matches(pattern + "b", std::string(20000, 'a')));
}

TEST(Glob, FindsWhatMatches) {
  const test::TempFolder folder;
  const char* files[] = {"a.txt",      "b.csv",      "d/a.txt",          "d/e/c.txt",
                         "d/e/.h.txt", ".git/x.txt", "z/a.txt/inner.txt"};
  for (const char* file : files) folder.write(file, "x");
  std::filesystem::create_directory_symlink(folder.path() / "d", folder.path() / "loop");
  for (const char* pattern :
       {"*", "**", "*.txt", "**/*.txt", "d/*", "d/**", "*/a.txt", "**/e/*", "a.txt", "d/a.txt",
        "nothing", ".git/*", "**/**/c.*", "d/**/c.txt", "[ab].*", "./d/./a.txt"}) {
    const auto found = expand_glob(folder.path(), pattern);
    ASSERT_TRUE(found) << found.error().message;
    std::vector<std::string> expected;
    for (const char* file : files) {
      if (glob_matches(pattern, file)) expected.push_back(file);
    }
    // A symbolic link is entered where a part of the pattern names it or fits it.
    if (std::string_view(pattern) == "*/a.txt") expected.push_back("loop/a.txt");
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(*found, expected) << pattern;
  }
  const auto absolute = expand_glob("/", folder.path().string() + "/*.csv");
  ASSERT_TRUE(absolute);
  EXPECT_THAT(*absolute, ElementsAre((folder.path() / "b.csv").string()));
}

}  // namespace
}  // namespace dovetail::pipeline
