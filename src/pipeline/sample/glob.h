#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::pipeline {

// Whether `path` (parts separated by '/') fits `pattern`: ? is one byte and * any number of bytes
// within a part, [a-z] and [!a-z] a byte of a set, ** any number of whole parts. Time is bounded by
// the product of the lengths.
bool glob_matches(std::string_view pattern, std::string_view path);
bool has_wildcards(std::string_view text);

// The regular files that fit a pattern, relative to `base` as the pattern is (absolute patterns
// stay absolute), sorted by their bytes. Folders reached by a symbolic link are not entered below
// "**"; hidden names match only where the pattern's part starts with a dot. An error names what
// cannot be read.
Result<std::vector<std::string>> expand_glob(const std::filesystem::path& base,
                                             std::string_view pattern);

}  // namespace dovetail::pipeline
