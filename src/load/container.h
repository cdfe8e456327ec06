#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "load/gguf.h"
#include "load/model_source.h"
#include "load/quantization.h"
#include "load/safetensors.h"
#include "load/stored_tensor.h"

namespace dovetail::load {

// The bytes of a file and the name that errors give it.
struct NamedBytes {
  std::string name;
  std::span<const std::byte> bytes;
};

struct NamedText {
  std::string name;
  std::string_view text;
};

// The config.json and model.safetensors of a dense layer.
struct DenseFiles {
  NamedText config;
  NamedBytes weights;
};

// The files of a Hugging Face folder; what the folder does not have is empty.
struct HuggingFaceFiles {
  NamedText config;                           // config.json
  std::vector<NamedBytes> weights;            // *.safetensors; names are paths
  std::optional<NamedText> index;             // model.safetensors.index.json
  std::optional<NamedText> quantization;      // hf_quant_config.json, ModelOpt's
  std::optional<NamedText> generation;        // generation_config.json
  std::optional<NamedText> tokenizer;         // tokenizer.json
  std::optional<NamedText> tokenizer_config;  // tokenizer_config.json
  std::optional<NamedText> chat_template;     // chat_template.jinja
  // Of sentence-transformers: 1_Pooling/config.json, or where modules.json says it is, and dense
  // layers behind the pooling.
  std::optional<NamedText> pooling;
  std::vector<DenseFiles> dense;
  bool described = false;  // there are to be no weights: the configuration alone is read
};

// All shards of a GGUF file, in order (one if it is not split), or a folder.
using ModelFiles = std::variant<std::vector<NamedBytes>, HuggingFaceFiles>;

// A model as its files hold it, before anything is known of its family: the configuration field by
// field, and the tensors by the names that the files give them. Views into the files.
struct Container {
  std::string name;    // of the file that has the configuration, in errors
  std::string place;   // of the weights, in errors about a tensor that is missing
  std::string format;  // as ModelSource has it
  std::variant<GgufFile, std::shared_ptr<const nlohmann::json>>
      configuration;  // of the first shard; config.json
  Quantization quantization;
  StoredTensors tensors;
  bool described = false;          // there are no tensors, and what they would tell is left open
  std::optional<Pooling> pooling;  // where the files say it beside the configuration,
  std::vector<HeadConfig> head;    // and likewise what stands behind it
  std::vector<std::vector<SafetensorsTensor>> shards;  // of a folder: the tensors' names lie here
};

// Takes the files apart. They must outlive the result.
Result<Container> read_container(const ModelFiles& files);

// What the files say beside the model: tokenizer, chat template, generation. Ids are held against
// `source.config`, which must be there.
Status read_extras(const ModelFiles& files, const Container& container, ModelSource& source);

// The files of a model, mapped.
struct MappedFiles {
  ModelFiles files;
  // The shards of a GGUF file of the layer that drafts tokens by itself; none where none is there.
  std::vector<NamedBytes> drafts = {};
  std::string model_name;                            // as ModelSource has it
  std::vector<std::shared_ptr<const void>> weights;  // mappings that tensors view into
  std::vector<std::shared_ptr<const void>> texts;    // mappings of the other files
};

// A .gguf file or a Hugging Face folder. A file NAME.gguf may have another beside it for the layer
// that drafts, mtp-NAME.gguf, as llama.cpp's converter calls it.
Result<MappedFiles> map_model(const std::filesystem::path& path);

// Whether the path is that of a configuration without weights: a .json file, or a folder with a
// config.json and no weights of any kind that is read.
bool is_description(const std::filesystem::path& path);

// Maps that.
Result<MappedFiles> map_description(const std::filesystem::path& path);

}  // namespace dovetail::load
