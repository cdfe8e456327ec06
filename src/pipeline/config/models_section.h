#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "pipeline/config/model_spec.h"
#include "pipeline/sample/fields.h"

namespace dovetail::pipeline {

struct ModelsSection {
  std::vector<ModelSpec> models;
  std::vector<std::string> recipes;  // by model: all of it that its answers depend on
};

// Reads the section `models`, an object by alias at /models. Relative paths start at `folder`. A
// model that is wrong is there, too, so that columns find its alias.
ModelsSection read_models(const Document& document, const Json& section,
                          const std::filesystem::path& folder, Mistakes& mistakes);

// The field of another object that holds sampling parameters; none where it is absent.
SamplingSpec read_sampling(const Document& document, Fields& parent, std::string_view key);

}  // namespace dovetail::pipeline
