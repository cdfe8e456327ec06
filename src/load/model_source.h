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

#include "base/result.h"
#include "kernels/data_type.h"

namespace dovetail::load {

struct StoredParts;

enum class Architecture : std::uint8_t { kLlama, kMistral, kQwen2, kQwen3, kMixtral, kQwen3Moe };

enum class RopeScaling : std::uint8_t { kNone, kLinear, kLlama3, kYarn };

// Rotary position embedding (Su et al., https://arxiv.org/abs/2104.09864).
struct RopeConfig {
  float theta = 10000.0F;
  // Which elements of a head form a pair: (2i, 2i+1) as in GGUF files of the llama architecture,
  // or (i, i + head_dim/2) as in Hugging Face checkpoints and GGUF files of the qwen ones.
  bool interleaved = false;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0F;                 // linear, llama3, YaRN
  std::uint32_t original_context = 0;  // llama3, YaRN: positions seen in training
  float low_freq_factor = 1.0F;        // llama3
  float high_freq_factor = 4.0F;       // llama3
  float beta_fast = 32.0F;             // YaRN (https://arxiv.org/abs/2309.00071)
  float beta_slow = 1.0F;              // YaRN
  float attention_factor = 1.0F;       // YaRN: multiplies cos and sin
  // Divisors of the base frequencies, head_dim/2 of them, where the file carries them (GGUF's
  // rope_freqs.weight); empty otherwise. They take the place of `scaling` when present.
  std::vector<float> frequency_divisors;
};

// A layer of experts in place of the dense feed-forward (https://arxiv.org/abs/1701.06538). A
// token's router takes the softmax of its logits over all experts in float and picks the `used`
// largest; the token gets the sum of their outputs by these weights.
struct ExpertsConfig {
  std::uint32_t count = 0;  // of a layer; 0: the feed-forward is dense
  std::uint32_t used = 0;   // by a token
  bool normalized = false;  // weights of a token's experts are divided by their sum
};

// The shape of a decoder. All sizes are in elements and already checked to be consistent with the
// tensors.
struct ModelConfig {
  Architecture architecture = Architecture::kLlama;
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t intermediate_size = 0;  // with experts: of one of them
  std::uint32_t layers = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t max_context = 0;  // positions the model was made for
  std::uint32_t sliding_window =
      0;  // 0: full attention; else a query sees this many last positions, itself included
  float rms_norm_epsilon = 1e-5F;
  bool attention_bias = false;   // q, k and v have biases
  bool qk_norm = false;          // per-head RMS norm of q and k before RoPE
  bool tied_embeddings = false;  // output.weight is token_embd.weight
  ExpertsConfig experts;
  RopeConfig rope;
};

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
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::optional<bool> lowercase, strip_accents;  // tokenizer.ggml.normalizer.*
  std::optional<bool> remove_extra_whitespaces;
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
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<std::int32_t> top_k;  // 0: all

  // Whether anything is said about which token is drawn.
  bool recommend_sampling() const {
    return temperature || top_p || min_p || repetition_penalty || top_k;
  }
};

// A model as it lies on disk: GGUF (one file, or any shard of a split) or a Hugging Face folder.
// Tensors are named as GGUF names them, whatever the source: token_embd.weight, output_norm.weight,
// output.weight (absent when tied),
// blk.N.{attn_norm,attn_q,attn_k,attn_v,attn_output,attn_q_norm,attn_k_norm,ffn_norm,ffn_gate,ffn_up,ffn_down}.weight,
// blk.N.{attn_q,attn_k,attn_v}.bias. With experts, blk.N.ffn_gate_inp.weight (the router, a row for
// each expert) and blk.N.{ffn_gate,ffn_up,ffn_down}.E.weight for each expert E from 0 take the
// place of blk.N.{ffn_gate,ffn_up,ffn_down}.weight; those of one layer and projection are of one
// type. Every tensor that the configuration calls for is there with the right shape. Immutable
// after open(); safe to share between threads.
struct ModelSource {
  std::filesystem::path path;
  std::string name;    // the file's or folder's name without ending; the default served-model-name
  std::string format;  // "GGUF v3", "Hugging Face safetensors"
  ModelConfig config;
  std::unordered_map<std::string, TensorView> tensors;
  std::variant<std::monostate, GgufTokenizer, HuggingFaceTokenizer>
      tokenizer;  // monostate: the source has none
  std::optional<std::string> chat_template;
  GenerationDefaults generation;
  std::vector<std::shared_ptr<const void>> mappings;  // keeps the mapped files alive
};

// Opens and checks a model. Nothing of the weights is read but what the checks need. An error names
// the file, the field, the value and what would be valid.
Result<std::shared_ptr<const ModelSource>> open_model(const std::filesystem::path& path);

// What a conversation (`chat`, `serve`) draws with where it says nothing itself: what the model's
// makers recommend; for a GGUF file without any recommendation temperature 0.8, top-k 40, top-p
// 0.95, min-p 0.05, as llama.cpp does; nothing for a folder without one.
GenerationDefaults conversation_defaults(const ModelSource& source);

// These defaults in words, with where they come from: a line without its end.
std::string explain_conversation_defaults(const ModelSource& source);

// Asks the system to start reading the weights into memory. Returns at once; a hint.
void prefetch_weights(const ModelSource& source);

}  // namespace dovetail::load
