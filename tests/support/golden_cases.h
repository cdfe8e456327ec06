#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace dovetail::test {

// The cases in a folder of tests/golden, in the order of their names.
inline std::vector<std::string> golden_cases(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace dovetail::test
