#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "families/families.h"
#include "load/container.h"

namespace dovetail::families {

// A family and what files call it; empty where no file of a format does.
struct Family {
  std::string_view name;          // ModelConfig::family
  std::string_view architecture;  // general.architecture of GGUF files
  std::string_view model_type;    // of config.json
  std::string_view class_name;    // of config.json's architectures
  const Reader& reader;
};

std::span<const Family> all_families();

// The family of the model that the configuration describes. An error names those that there are.
Result<const Family*> find_family(const load::Container& container);

}  // namespace dovetail::families
