#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::pipeline {

// The candidate that `word` is most likely a misspelling of (insertions, deletions, replacements
// and swaps of neighbours, at most a third of the word), or empty where none is near. The first of
// several equally near ones.
std::string_view near_match(std::string_view word, std::span<const std::string_view> candidates);

// For the end of an error message: "valid: a, b, c", with " (did you mean 'b'?)" where one is near.
// More than 20 candidates are cut.
std::string valid_names(std::string_view word, std::span<const std::string_view> candidates);
std::string valid_names(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace dovetail::pipeline
