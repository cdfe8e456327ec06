#include "engine/memory.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// What the files of a version are called; those of `cache` lines in memory.stat are pages of files.
struct Version {
  std::string_view controller;  // of its lines in `groups`; version 2 has none
  std::string_view folder;      // in `mounts`
  const char* limit;
  const char* used;
  std::array<std::string_view, 2> cache;
};

constexpr std::array<Version, 2> kVersions = {
    {{"", "", "memory.max", "memory.current", {"inactive_file", "active_file"}},
     {"memory",
      "memory",
      "memory.limit_in_bytes",
      "memory.usage_in_bytes",
      {"total_inactive_file", "total_active_file"}}}};

std::uint64_t minus(std::uint64_t from, std::uint64_t what) { return from - std::min(from, what); }

// A number alone in a file; nothing for "max", and where there is no such file.
std::optional<std::uint64_t> number_in(const fs::path& path) {
  std::uint64_t number = 0;
  if (std::ifstream(path) >> number) return number;
  return {};
}

// The number behind `name` in lines of names and numbers.
std::optional<std::uint64_t> number_of(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    std::uint64_t number = 0;
    if (words >> word >> number && word == name) return number;
  }
  return {};
}

// Calls function(version, folder) for each group of this process and those around it. Folders that
// are not mounted here, as of groups outside a container, may be among them.
template <class Function>
void for_each_group(const MemoryFiles& files, Function&& function) {
  std::ifstream groups(files.groups);
  // A line is NUMBER:CONTROLLERS:/PATH.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    for (const Version& version : kVersions) {
      if (controllers.find("," + std::string(version.controller) + ",") == std::string::npos)
        continue;
      const fs::path top = files.mounts / version.folder;
      fs::path below = fs::path(line.substr(second + 1)).relative_path().lexically_normal();
      // Seen from a namespace the group may lie outside of what is mounted.
      if (!below.empty() && *below.begin() == "..") below.clear();
      while (true) {
        function(version, top / below);
        if (below.empty()) break;
        below = below.parent_path();
      }
    }
  }
}

}  // namespace

std::uint64_t control_group_memory(const MemoryFiles& files) {
  std::uint64_t least = kNoLimit;
  for_each_group(files, [&](const Version& version, const fs::path& folder) {
    const auto limit = number_in(folder / version.limit);
    if (limit && *limit > 0) least = std::min(least, *limit);
  });
  return least;
}

std::optional<std::uint64_t> available_memory(const MemoryFiles& files) {
  constexpr std::uint64_t kKibibyte = 1024;
  std::optional<std::uint64_t> available = number_of(files.meminfo, "MemAvailable:");
  if (!available) return {};
  *available *= kKibibyte;
  for_each_group(files, [&](const Version& version, const fs::path& folder) {
    const auto limit = number_in(folder / version.limit);
    const auto used = number_in(folder / version.used);
    if (!limit || *limit == 0 || !used) return;
    std::uint64_t cache = 0;
    for (const std::string_view name : version.cache)
      cache += number_of(folder / "memory.stat", name).value_or(0);
    *available = std::min(*available, minus(*limit, minus(*used, cache)));
  });
  return available;
}

}  // namespace dovetail::engine
