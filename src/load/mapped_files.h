#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/container.h"

namespace dovetail::load {

// The files of a model, mapped.
struct MappedFiles {
  ModelFiles files;
  std::string model_name;                            // as ModelSource has it
  std::vector<std::shared_ptr<const void>> weights;  // mappings that tensors view into
  std::vector<std::shared_ptr<const void>> texts;    // mappings of the other files
};

// A .gguf file or a Hugging Face folder.
Result<MappedFiles> map_model(const std::filesystem::path& path);

}  // namespace dovetail::load
