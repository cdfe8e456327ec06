#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "families/families.h"
#include "load/container.h"

namespace dovetail::families {

// A family and what files call it; empty where no file of a format does. A model_type may have
// several rows, for classes with another head; the first is that of a configuration without any.
struct Family {
  std::string_view name;          // ModelConfig::family
  std::string_view architecture;  // general.architecture of GGUF files
  std::string_view model_type;    // of config.json
  std::string_view class_name;    // of config.json's architectures
  const Reader& reader;
};

std::span<const Family> all_families();

// A model's family, and what of a config.json describes its text: all of it, or a member, where the
// model takes pictures too. Tensors' names have more in front of them then (text_name()). A class
// without a head, as embedders have it, is the family's whose class has one.
struct FoundFamily {
  const Family* family = nullptr;
  const nlohmann::json* text = nullptr;  // null: a GGUF file
  bool wrapped = false;
  bool headless = false;
};

// The family of the model that the configuration describes. An error names those that there are.
// The container must outlive the result.
Result<FoundFamily> find_family(const load::Container& container);

// The name of a wrapped model's tensor as a model of text alone has it; nothing for those that are
// not for text.
std::optional<std::string> text_name(std::string_view stored);

}  // namespace dovetail::families
