#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dovetail::families {

// A stored name and the name that model_config.h has for it. "*" stands for a whole number, of a
// layer or an expert, as the stored name spells it. An ending ".weight" or ".bias" may be left out
// of both: then it stays.
struct Rename {
  std::string_view stored;
  std::string_view name;
};
using Names = std::span<const Rename>;

// Names of Hugging Face tensors that most families share.
extern const Names kCommonHfNames;

// What the first of `names` that fits makes of a stored name; nothing where none fits. Two stored
// names never get one name by the same row.
std::optional<std::string> rename(std::string_view stored, Names names);

}  // namespace dovetail::families
