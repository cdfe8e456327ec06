#include "pipeline/sample/glob.h"

#include <algorithm>
#include <span>
#include <system_error>

#include "load/quote.h"

namespace dovetail::pipeline {
namespace {

namespace fs = std::filesystem;

// Far more than any data set in single files has; a pattern such as /** must end.
constexpr std::size_t kMostFound = 10'000'000;

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto slash = text.find('/');
    const std::string_view part = text.substr(0, slash);
    if (!part.empty() && part != ".") parts.push_back(part);
    if (slash == std::string_view::npos) return parts;
    text.remove_prefix(slash + 1);
  }
}

// The bytes of the set that starts at pattern[at] ('['), or 0 where it does not end; sets `inside`.
std::size_t match_set(std::string_view pattern, std::size_t at, char c, bool& inside) {
  std::size_t i = at + 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) ++i;
  bool found = false;
  for (bool first = true; i < pattern.size() && (first || pattern[i] != ']'); first = false) {
    const auto low = static_cast<unsigned char>(pattern[i]);
    auto high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      high = static_cast<unsigned char>(pattern[i + 2]);
      i += 2;
    }
    const auto byte = static_cast<unsigned char>(c);
    found |= byte >= low && byte <= high;
    ++i;
  }
  if (i >= pattern.size()) return 0;
  inside = found != negated;
  return i + 1 - at;
}

// Greedy with one point of return: the last star. Linear in space, at worst quadratic in time.
bool part_matches(std::string_view pattern, std::string_view name) {
  if (name.starts_with('.') && !pattern.starts_with('.')) return false;
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (n < name.size()) {
    bool fits = false;
    std::size_t step = 1;
    if (p < pattern.size()) {
      if (pattern[p] == '*') {
        star = p++;
        resume = n;
        continue;
      }
      fits = pattern[p] == '?' || pattern[p] == name[n];
      if (pattern[p] == '[') {
        const std::size_t size = match_set(pattern, p, name[n], fits);
        if (size != 0) step = size;
      }
    }
    if (fits) {
      p += step;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool parts_match(const std::vector<std::string_view>& pattern,
                 const std::vector<std::string_view>& path) {
  // fits[j]: the pattern's parts so far match the first j parts of the path.
  std::vector<bool> fits(path.size() + 1);
  fits[0] = true;
  for (const std::string_view part : pattern) {
    std::vector<bool> next(path.size() + 1);
    if (part == "**") {
      bool any = false;
      for (std::size_t j = 0; j <= path.size(); ++j) {
        any = (any && (j == 0 || !path[j - 1].starts_with('.'))) || fits[j];
        next[j] = any;
      }
    } else {
      for (std::size_t j = 1; j <= path.size(); ++j) {
        next[j] = fits[j - 1] && part_matches(part, path[j - 1]);
      }
    }
    fits = std::move(next);
  }
  return fits.back();
}

struct Walk {
  fs::path base;
  std::vector<std::string> found;
};

std::string join(const std::string& folder, std::string_view name) {
  if (folder.empty() || folder.ends_with('/')) return folder + std::string(name);
  return folder + "/" + std::string(name);
}

// Adds what fits parts[at ...] below `folder` ("" is the base).
Status walk(Walk& state, const std::string& folder, std::span<const std::string_view> parts) {
  const fs::path place = folder.empty() ? state.base : state.base / folder;
  std::error_code error;
  if (parts.empty()) return {};
  const std::string_view part = parts.front();
  if (part != "**" && !has_wildcards(part)) {
    const std::string next = join(folder, part);
    if (parts.size() > 1) return walk(state, next, parts.subspan(1));
    if (fs::is_regular_file(state.base / next, error)) state.found.push_back(next);
    return {};
  }
  if (part == "**") {
    if (parts.size() == 1) {
      static constexpr std::string_view kAny[] = {"*"};
      if (Status status = walk(state, folder, kAny); !status) return status;
    } else if (Status status = walk(state, folder, parts.subspan(1)); !status) {
      return status;
    }
  }
  fs::directory_iterator entries(place, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory)
    return {};
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    std::error_code ignored;
    if (part == "**") {
      if (name.starts_with('.') || entries->is_symlink(ignored)) continue;
      if (!entries->is_directory(ignored)) continue;
      if (Status status = walk(state, join(folder, name), parts); !status) return status;
    } else if (part_matches(part, name)) {
      if (parts.size() > 1) {
        if (!entries->is_directory(ignored)) continue;
        if (Status status = walk(state, join(folder, name), parts.subspan(1)); !status) {
          return status;
        }
      } else if (entries->is_regular_file(ignored)) {
        if (state.found.size() >= kMostFound) {
          return fail(ErrorKind::kInvalid, "{}: more than {} files; valid: a narrower pattern",
                      load::quote(place.string()), kMostFound);
        }
        state.found.push_back(join(folder, name));
      }
    }
  }
  if (error) {
    return fail(ErrorKind::kIo, "cannot list {}: {}", load::quote(place.string()), error.message());
  }
  return {};
}

}  // namespace

bool has_wildcards(std::string_view text) {
  return text.find_first_of("*?[") != std::string_view::npos;
}

bool glob_matches(std::string_view pattern, std::string_view path) {
  return parts_match(split(pattern), split(path));
}

Result<std::vector<std::string>> expand_glob(const fs::path& base, std::string_view pattern) {
  std::vector<std::string_view> parts = split(pattern);
  // "a/**/**/b" would find things twice.
  parts.erase(std::unique(parts.begin(), parts.end(),
                          [](auto a, auto b) { return a == "**" && b == "**"; }),
              parts.end());
  const std::string root = pattern.starts_with('/') ? "/" : "";
  Walk state{base, {}};
  if (Status status = walk(state, root, parts); !status) return fail(status.error());
  std::sort(state.found.begin(), state.found.end());
  state.found.erase(std::unique(state.found.begin(), state.found.end()), state.found.end());
  return std::move(state.found);
}

}  // namespace dovetail::pipeline
