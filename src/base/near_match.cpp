#include "base/near_match.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace dovetail {
namespace {

constexpr std::size_t kMost = 3;
constexpr std::size_t kLongest = 64;  // no option is near anything longer

char folded(char letter) { return letter == '_' ? '-' : letter; }

std::size_t distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before, above, row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  const auto is_same = [&](std::size_t i, std::size_t j) {
    return folded(left[i]) == folded(right[j]);
  };
  for (std::size_t i = 0; i < left.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < right.size(); ++j) {
      row[j + 1] = std::min({above[j] + (is_same(i, j) ? 0 : 1), row[j] + 1, above[j + 1] + 1});
      if (i > 0 && j > 0 && is_same(i, j - 1) && is_same(i - 1, j))
        row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> near_matches(std::string_view given,
                                      const std::vector<std::string>& names) {
  if (given.size() > kLongest) return {};
  const std::size_t allowed = std::max<std::size_t>(2, given.size() / 3);
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const std::string& name : names) {
    const std::size_t apart = distance(given, name);
    if (apart <= allowed && apart < name.size()) found.emplace_back(apart, name);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::vector<std::string> near;
  for (std::size_t i = 0; i < found.size() && i < kMost; ++i)
    near.push_back(std::move(found[i].second));
  return near;
}

std::vector<std::string> begun_or_near(std::string_view given,
                                       const std::vector<std::string>& names) {
  std::vector<std::string> found = near_matches(given, names);
  const auto begun = [given](const std::string& name) {
    return !given.empty() && name.size() >= given.size() &&
           std::equal(given.begin(), given.end(), name.begin(),
                      [](char left, char right) { return folded(left) == folded(right); });
  };
  if (std::count_if(names.begin(), names.end(), begun) != 1) return found;
  const std::string& only = *std::find_if(names.begin(), names.end(), begun);
  std::erase(found, only);
  found.insert(found.begin(), only);
  if (found.size() > kMost) found.resize(kMost);
  return found;
}

}  // namespace dovetail
