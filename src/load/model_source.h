#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/sampling_table.h"
#include "kernels/data_type.h"
#include "load/model_config.h"

namespace dovetail::load {

struct StoredParts;

// A tensor inside memory-mapped files. `rows` x `columns`, row-major, columns innermost; a vector
// has rows == 1. `data` is exactly bytes() bytes and lives as long as the ModelSource; it may be
// unaligned. A matrix that its file stores in another form has no data but `parts`, of which
// write_rows() (stored_parts.h) makes rows of the type.
struct TensorView {
  kernels::DataType type = kernels::DataType::kF32;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::span<const std::byte> data;
  std::shared_ptr<const StoredParts> parts = nullptr;
  // The matrix is its rows times this, a finite number above 0, which products are multiplied by:
  // the scale of a whole tensor beside those of its groups. 1 where single rows are looked up.
  float factor = 1.0F;

  // Of all rows as the type has them.
  std::size_t bytes() const { return rows * kernels::row_bytes(type, columns); }
};

// A tokenizer as GGUF metadata describes it.
struct GgufTokenizer {
  std::string model;  // tokenizer.ggml.model: "llama", "gpt2", "gemma4", "bert" or "t5"
  std::string pre;    // tokenizer.ggml.pre: "default", "llama-bpe", "qwen2", ...
  std::vector<std::string> tokens;
  std::vector<float> scores;  // empty where the file has none
  std::vector<std::int32_t>
      token_types;  // 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<std::string> merges;  // "left right"
  std::optional<std::int32_t> bos, eos, eot, eom, unknown, padding, cls, separator;
  std::optional<std::int32_t> fim_prefix, fim_suffix, fim_middle;  // around what is to be filled in
  std::optional<std::int32_t> fim_repository, fim_file;            // before names, ahead of that
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::optional<bool> lowercase, strip_accents;  // tokenizer.ggml.normalizer.*
  std::optional<bool> remove_extra_whitespaces;
  std::string pair_template;  // tokenizer.chat_template.rerank: with {query} and {document}
  std::string charsmap;  // bytes of tokenizer.ggml.precompiled_charsmap; empty where there is none
};

// A tokenizer as a Hugging Face folder describes it: the files' texts.
struct HuggingFaceTokenizer {
  std::string tokenizer_json;
  std::string tokenizer_config_json;  // empty where the folder has none
};

// Defaults that the model's makers recommend (generation_config.json, general.sampling.* of a GGUF
// file); empty where not given.
struct GenerationDefaults {
  std::vector<std::int32_t> eos_ids;  // every id that ends a generation
  SamplingValues sampling;
};

// A model as it lies on disk: GGUF (one file, or any shard of a split) or a Hugging Face folder.
// Tensors are named as GGUF names them, whatever the source; which there are, model_config.h says.
// Those of an expert E are NAME.E.weight, and those of one layer and projection are of one type.
// Every tensor that the configuration calls for is there with the right shape. Never changes after
// families::open_model(); safe to share between threads.
struct ModelSource {
  std::filesystem::path path;
  std::string name;    // the file's or folder's name without ending; the default served-model-name
  std::string format;  // "GGUF v3", "Hugging Face safetensors"
  // What a GGUF file calls its mix of types (general.file_type): "Q4_K_M"; empty: nothing.
  std::string quantization;
  ModelConfig config;
  std::unordered_map<std::string, TensorView> tensors;
  std::variant<std::monostate, GgufTokenizer, HuggingFaceTokenizer>
      tokenizer;  // monostate: the source has none
  std::optional<std::string> chat_template;
  GenerationDefaults generation;
  bool has_weights = true;       // else tensors have no data: what the model takes can be told
  std::uint64_t file_bytes = 0;  // of the files with the weights, that of a draft layer among them
  std::vector<std::shared_ptr<const void>> mappings;  // keeps the mapped files alive
};

// What a conversation (`chat`, `serve`) draws with where it says nothing itself: what the model's
// makers recommend; for a GGUF file without any recommendation temperature 0.8, top-k 40, top-p
// 0.95, min-p 0.05, as llama.cpp does; nothing for a folder without one.
GenerationDefaults conversation_defaults(const ModelSource& source);

// In words, with where it comes from: a line without its end. `given` by options goes before the
// defaults.
std::string explain_conversation_defaults(const ModelSource& source, const SamplingValues& given);

}  // namespace dovetail::load
