#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "schedule/history_script.h"
#include "support/places.h"

namespace dovetail::schedule {
namespace {

std::vector<std::filesystem::path> scripts() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(test::source_dir() + "/tests/histories")) {
    if (entry.path().extension() == ".sched") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class HistoryScript : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(HistoryScript, Holds) {
  std::ifstream file(GetParam());
  ASSERT_TRUE(file) << GetParam();
  const std::string script{std::istreambuf_iterator<char>(file), {}};
  const auto fault = run_history(script, "tests/histories/" + GetParam().filename().string());
  EXPECT_FALSE(fault) << *fault;
}

INSTANTIATE_TEST_SUITE_P(Scripts, HistoryScript, testing::ValuesIn(scripts()),
                         [](const auto& info) {
                           std::string name = info.param.stem().string();
                           std::replace_if(
                               name.begin(), name.end(),
                               [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace dovetail::schedule
