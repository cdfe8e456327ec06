#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "dovetail/engine.h"
#include "load/model_source.h"

namespace dovetail::cli {

// The tensors of one type.
struct TypeShare {
  std::size_t tensors = 0;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;   // as the file has them
  std::uint64_t packed = 0;  // in panels, beside those that stay in the file; 0: none is packed
};

// What groups of layers that see as much take of the cache.
struct CacheGroups {
  std::uint32_t window = 0;    // positions that they see; 0: all
  std::size_t groups = 0;      // as many
  std::uint64_t token = 0;     // bytes of one position of one sequence
  std::uint64_t sequence = 0;  // of a sequence of options.max_context positions
};

// What a model takes with given options. Bytes.
struct MemoryNeed {
  EngineOptions options;             // with the automatic values filled in
  std::uint64_t weights_own = 0;     // weights in memory of their own: packed, made of parts
  std::uint64_t weights_mapped = 0;  // mapped from the file, shared between processes
  std::uint64_t cache_token = 0;     // one position of one sequence
  std::uint64_t cache_kept = 0;      // of these, what stays when it is behind all windows
  std::uint64_t cache_sequence = 0;  // a sequence of options.max_context positions
  std::uint64_t cache = 0;           // reserved: options.kv_blocks blocks
  std::uint64_t full_sequences = 0;  // of max_context positions that fit the cache at a time
  std::vector<CacheGroups> groups;   // in the order of their first
  std::uint64_t state = 0;           // of one sequence
  std::uint64_t states = 0;          // of max_num_seqs sequences, and saved ones
  std::uint64_t scratch = 0;         // estimate: activations and logits of a full step
  // Why weights stay in the file that would else be packed, in a line; empty where none do.
  std::string notice;

  std::uint64_t weights() const { return weights_own + weights_mapped; }
};

struct ModelReport {
  std::uint64_t parameters = 0;
  std::map<std::string, TypeShare> types;  // by name
  std::string tokenizer;                   // kind, or "none"
  bool chat_template = false;
  std::string built_in_template;  // the one for its family; empty where there is none
  MemoryNeed memory;
};

// kInvalid where the options do not fit the model. What is packed depends on the memory that is
// free now, as it would where the model was loaded.
Result<ModelReport> report_model(const load::ModelSource& source, const EngineOptions& options);

// The kinds of layers that a model has, in the order of their first: how many there are of each,
// and what they compute, for people and for programs.
struct LayerKind {
  std::size_t layers = 0;
  std::string text;
  Json json;
};
std::vector<LayerKind> layer_kinds(const load::ModelConfig& config);
// The layer that drafts tokens, where the model has one; of 0 layers else.
LayerKind draft_kind(const load::ModelConfig& config);

// The tensors' names with numbers in their numeric order: blk.2 before blk.10.
std::vector<std::string> tensor_names(const load::ModelSource& source);

// For people, and for programs.
std::string report_text(const load::ModelSource& source, const ModelReport& report, bool tensors);
Json report_json(const load::ModelSource& source, const ModelReport& report, bool tensors);

}  // namespace dovetail::cli
