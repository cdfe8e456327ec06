#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "load/gguf_model.h"
#include "load/model_source.h"

namespace dovetail::load {

struct NamedText {
  std::string name;
  std::string_view text;
};

// The files of a Hugging Face folder; what the folder does not have is empty.
struct HuggingFaceFiles {
  NamedText config;                           // config.json
  std::vector<NamedBytes> weights;            // *.safetensors; names are paths
  std::optional<NamedText> index;             // model.safetensors.index.json
  std::optional<NamedText> generation;        // generation_config.json
  std::optional<NamedText> tokenizer;         // tokenizer.json
  std::optional<NamedText> tokenizer_config;  // tokenizer_config.json
  std::optional<NamedText> chat_template;     // chat_template.jinja
};

// Reads a model from the contents of its files. The result views into the weights' bytes; path,
// name and mappings are left to the caller.
Result<ModelSource> read_hf_model(const HuggingFaceFiles& files);

// The files that an index names, in order and each once: names within the folder, never paths.
Result<std::vector<std::string>> files_of_index(const NamedText& index);

// Opens a Hugging Face folder.
Result<std::shared_ptr<const ModelSource>> open_hf_model(const std::filesystem::path& folder);

}  // namespace dovetail::load
