#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "load/json_fields.h"
#include "load/safetensors.h"
#include "load/safetensors_builder.h"
#include "support/places.h"

namespace dovetail::families {

inline const std::filesystem::path kFoldersOfGoldens =
    std::filesystem::path(test::source_dir()) / "tests" / "golden" / "models";

inline nlohmann::json golden_config(const std::string& name) {
  const std::string text = test::read_bytes(kFoldersOfGoldens / name / "config.json");
  return nlohmann::json::parse(load::with_python_words(text));
}

// The folder of a golden taken apart.
inline load::HfBuilder golden_folder(const std::string& name) {
  load::HfBuilder out;
  out.config = golden_config(name);
  const std::string weights = test::read_bytes(kFoldersOfGoldens / name / "model.safetensors");
  const auto parsed = load::parse_safetensors(std::as_bytes(std::span(weights)), name);
  for (const load::SafetensorsTensor& tensor : *parsed) {
    out.weights.tensors.push_back({tensor.name, tensor.stored_type, tensor.shape,
                                   load::Bytes(tensor.data.begin(), tensor.data.end())});
  }
  return out;
}

}  // namespace dovetail::families
