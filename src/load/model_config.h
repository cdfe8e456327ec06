#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "kernels/kernels.h"

namespace dovetail::load {

// What a model computes, as data: the blocks of its layers in their order. A family (families/)
// reads a file's configuration and composes one of these; model/ runs it. All sizes are in
// elements.
//
// Each part names the tensors that it uses, as GGUF does; those of layer N are blk.N.NAME.

enum class RopeScaling : std::uint8_t { kNone, kLinear, kLlama3, kYarn, kLongRope };

// A divisor of a frequency that is none: the pair stands.
inline constexpr float kDivisorOfNone = 1e30F;

// Rotary position embedding (Su et al., https://arxiv.org/abs/2104.09864).
struct RopeConfig {
  float theta = 10000.0F;
  // Elements of a head that turn, from its first on; the rest stay as they are. 0: all.
  std::uint32_t dims = 0;
  // Which elements of a head form a pair: (2i, 2i+1) as in GGUF files of the llama architecture,
  // or (i, i + dims/2) as in Hugging Face checkpoints and GGUF files of most others.
  bool interleaved = false;
  RopeScaling scaling = RopeScaling::kNone;
  float factor = 1.0F;                 // linear, llama3, YaRN
  std::uint32_t original_context = 0;  // llama3, YaRN, LongRoPE: positions seen in training
  float low_freq_factor = 1.0F;        // llama3
  float high_freq_factor = 4.0F;       // llama3
  float beta_fast = 32.0F;             // YaRN (https://arxiv.org/abs/2309.00071)
  float beta_slow = 1.0F;              // YaRN
  bool truncate = true;                // YaRN: the border dimensions are whole numbers
  float attention_factor = 1.0F;       // YaRN, LongRoPE: multiplies cos and sin
  // Divisors of the base frequencies, dims/2 of them, where the file carries them (GGUF's
  // rope_freqs.weight, LongRoPE's factors); empty otherwise. They take the place of `scaling` when
  // present.
  std::vector<float> frequency_divisors;
  // LongRoPE (https://arxiv.org/abs/2402.13753): the divisors of a context of more positions than
  // original_context, while frequency_divisors are for all others. The context is that which the
  // model is run with, whatever the length of a sequence.
  std::vector<float> long_divisors;

  bool operator==(const RopeConfig&) const = default;
};

enum class NormKind : std::uint8_t {
  kNone,
  kRms,    // https://arxiv.org/abs/1910.07467
  kLayer,  // https://arxiv.org/abs/1607.06450
};

// A norm with a weight, NAME.weight, and a bias, NAME.bias, if it says so.
struct NormConfig {
  NormKind kind = NormKind::kNone;
  float epsilon = 1e-5F;
  bool bias = false;
  float offset = 0.0F;  // what is added to each weight as the file has it

  explicit operator bool() const { return kind != NormKind::kNone; }
  bool operator==(const NormConfig&) const = default;
};

// The norms of a sublayer f: after(x + scale * behind(f(before(x)))).
struct SublayerConfig {
  NormConfig before;   // attn_norm; ffn_norm
  NormConfig behind;   // post_attention_norm; post_ffw_norm
  NormConfig after;    // attn_output_norm; layer_output_norm
  float scale = 1.0F;  // of what the sublayer gives

  bool operator==(const SublayerConfig&) const = default;
};

// What is normed together of queries and of keys: attn_q_norm and attn_k_norm.
enum class QueryKeyNorm : std::uint8_t {
  kNone,
  kHead,        // each head, by weights of head_dim
  kTurnedHead,  // each head behind the rotation
  kRow,         // all heads of a token, by weights of them all
};

// What the sigmoids are of that the output of attention is multiplied by.
enum class AttentionGate : std::uint8_t {
  kNone,
  kWithQueries,  // attn_q gives, head by head, queries and gates
  kElements,     // attn_gate gives one for each element
  kHeads,        // attn_gate gives one for each head
};

// Attention of queries in groups over keys and values in the cache
// (https://arxiv.org/abs/2305.13245). Tensors: attn_q, attn_k, attn_v, attn_output; attn_sinks.
struct AttentionConfig {
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t window = 0;  // a query sees this many last positions, itself included; 0: all
  bool causal = true;        // else it sees as many that follow, too
  float scale = 1.0F;        // of the products of queries and keys
  float softcap = 0.0F;      // of the scaled products, by tanh; 0: none
  std::int32_t rope = 0;     // index in ModelConfig::ropes; -1: none
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  NormConfig norm;    // of queries and keys, if they are normed
  bool bias = false;  // of queries, keys and values
  bool output_bias = false;
  bool sinks = false;  // a logit for each head that takes part in the softmax and has no value
  AttentionGate gate = AttentionGate::kNone;
  // Queries are multiplied by 1 + temperature * log(1 + floor(position / temperature_context)).
  float temperature = 0.0F;
  std::uint32_t temperature_context = 0;
  // Values are what attn_k gives, before keys are normed and turn: there is no attn_v.
  bool values_of_keys = false;
  NormConfig value_norm;  // of each head's values, without weights
  // The layer whose keys and values it attends to, an earlier one; it makes none. -1: its own.
  std::int32_t shares = -1;

  // What attn_q and attn_gate give for a token.
  std::size_t query_size() const { return std::size_t{heads} * head_dim; }
  std::size_t query_rows() const {
    return gate == AttentionGate::kWithQueries ? 2 * query_size() : query_size();
  }
  std::size_t gate_rows() const {
    if (gate == AttentionGate::kElements) return query_size();
    return gate == AttentionGate::kHeads ? heads : 0;
  }

  bool operator==(const AttentionConfig&) const = default;
};

// Multi-head latent attention (DeepSeek-V2, https://arxiv.org/abs/2405.04434): the cache has one
// vector for a position and layer, a latent that the heads' keys and values are made of, and beside
// it elements that turn and that all heads have in their keys. Tensors: attn_q, or, where queries
// are of low rank, attn_q_a, attn_q_a_norm and attn_q_b; attn_kv_a_mqa (latents, and the elements
// that turn), attn_kv_a_norm (of latents alone); attn_kv_b (head by head, rows for keys and then
// for values), or attn_k_b (head by head, the rows for keys transposed) and attn_v_b; attn_output.
struct LatentConfig {
  std::uint32_t heads = 0;
  std::uint32_t latent_dim = 0;  // of a latent
  std::uint32_t rope_dim = 0;    // of what turns, behind the rest of a query and of a key
  std::uint32_t key_dim = 0;     // of a head's key without it
  std::uint32_t value_dim = 0;   // of a head's value
  std::uint32_t query_rank = 0;  // 0: attn_q
  float scale = 1.0F;            // of the products of queries and keys
  std::int32_t rope = 0;         // index in ModelConfig::ropes; -1: nothing turns
  NormConfig norm;               // of latents, and of queries of low rank
  bool split = false;            // attn_k_b and attn_v_b in place of attn_kv_b
  float temperature = 0.0F;      // as AttentionConfig's
  std::uint32_t temperature_context = 0;
  std::uint32_t index_heads = 0;  // 0: there is no indexer
  std::uint32_t index_dim = 0;    // of its keys; the first rope_dim turn, in pairs (i, i + half)
  bool index_neighbours = false;  // in pairs of neighbours instead
  std::uint32_t index_top = 0;    // positions that a query attends to at most
  NormConfig index_norm;          // of its keys

  std::uint32_t head_dim() const { return key_dim + rope_dim; }
  std::uint32_t cached_dim() const { return latent_dim + rope_dim; }

  bool operator==(const LatentConfig&) const = default;
};

// DeepSeek-V4's attention: one vector of a position is key and value of all heads. A query sees
// those of a window, itself included, and, where the layer compresses, an entry for each `ratio`
// positions that have gone by: a sum over their tokens' rows, channel by channel, by a softmax over
// the tokens. Entries that overlap reach over the `ratio` tokens before as well. Where there is an
// indexer and more entries can be seen than it may pick, it picks those with the largest scores.
// Outputs turn back by their query's position, and go through a product of low rank for each group
// of heads. Tensors: attn_q_a, attn_q_a_norm, attn_q_b, attn_kv, attn_kv_norm, attn_sinks,
// attn_output_a, attn_output; compress_kv, compress_gate, compress_ape (a row for each token of an
// entry), compress_norm; indexer.attn_q_b, indexer.proj, and indexer.compress_* likewise.
struct CompressedConfig {
  std::uint32_t heads = 0;
  std::uint32_t head_dim = 0;
  std::uint32_t rope_dim = 0;    // of what turns, the last of a head
  std::uint32_t query_rank = 0;  // attn_q_a gives so many
  std::uint32_t window = 0;
  std::uint32_t ratio = 0;  // 0: there are no entries
  bool overlaps = false;
  std::uint32_t groups = 1, group_rank = 0;  // of heads; of what a group gives
  std::uint32_t index_heads = 0;             // 0: there is no indexer
  std::uint32_t index_dim = 0, index_top = 0;
  float scale = 1.0F;     // of the products of queries and keys
  std::int32_t rope = 0;  // index in ModelConfig::ropes
  NormConfig norm;

  // Of an entry: the key and value of all heads, and the indexer's key.
  std::uint32_t entry_dim() const { return head_dim + index_dim; }
  // Tokens that an entry sums, and rows that a token gives for that: of each channel of an entry
  // one, or, where they overlap, one for the next entry and one for its own.
  std::uint32_t tokens() const { return overlaps ? 2 * ratio : ratio; }
  std::uint32_t halves() const { return overlaps ? 2 : 1; }
  // Floats that a sequence has between passes: what its last tokens gave, and their gates.
  std::size_t state_floats() const {
    return ratio == 0 ? 0 : std::size_t{2} * tokens() * halves() * entry_dim();
  }

  bool operator==(const CompressedConfig&) const = default;
};

// Gated DeltaNet (https://arxiv.org/abs/2412.06464): a state for each head of values, in which keys
// find values, behind a short convolution over the positions. Tensors: attn_qkv (queries, keys and
// values of all heads), attn_gate, ssm_beta, ssm_alpha (a row for each head of values), ssm_conv1d
// (a row for each channel of attn_qkv), ssm_dt.bias, ssm_a or ssm_a_log, ssm_norm, ssm_out.
struct DeltaConfig {
  std::uint32_t key_heads = 0, value_heads = 0;
  std::uint32_t key_dim = 0, value_dim = 0;  // of a head
  std::uint32_t convolution = 4;             // positions
  float epsilon = 1e-6F;
  // Which key head the value head h has: h % key_heads, or the one whose group of value heads it is
  // in.
  bool tiled = false;
  // ssm_in gives, key head by key head, what attn_qkv and attn_gate give; ssm_ba likewise what
  // ssm_beta and ssm_alpha give.
  bool grouped_input = false, grouped_rates = false;
  bool log_rates = false;  // ssm_a_log, the logarithms of what ssm_a has with the other sign

  std::size_t key_size() const { return std::size_t{key_heads} * key_dim; }
  std::size_t value_size() const { return std::size_t{value_heads} * value_dim; }
  std::size_t channels() const { return 2 * key_size() + value_size(); }  // of the convolution
  // Floats that a sequence has between passes: the convolution's last inputs, and the states.
  std::size_t state_floats() const {
    return (convolution - 1) * channels() + key_dim * value_size();
  }

  bool operator==(const DeltaConfig&) const = default;
};

// Kimi Delta Attention (https://arxiv.org/abs/2510.26692): DeltaNet whose states decay by a number
// for each channel of a key, of low rank as the gates of the output are, which are sigmoids.
// Tensors: attn_q, attn_k, attn_v; ssm_conv1d_q, ssm_conv1d_k, ssm_conv1d_v (a row for each of
// their channels); ssm_f_a and ssm_f_b (decays), ssm_dt.bias (of each channel), ssm_a or ssm_a_log
// (of each head); ssm_beta (a row for each head); ssm_g_a and ssm_g_b (gates); ssm_norm;
// attn_output.
struct KimiDeltaConfig {
  std::uint32_t heads = 0, head_dim = 0;
  std::uint32_t convolution = 4;  // positions
  float epsilon = 1e-5F;
  bool log_rates = false;  // ssm_a_log, the logarithms of what ssm_a has with the other sign

  std::size_t size() const { return std::size_t{heads} * head_dim; }
  std::size_t channels() const { return 3 * size(); }  // of the convolution
  // Floats that a sequence has between passes: the convolution's last inputs, and the states.
  std::size_t state_floats() const { return (convolution - 1) * channels() + head_dim * size(); }

  bool operator==(const KimiDeltaConfig&) const = default;
};

// Mamba-2 (https://arxiv.org/abs/2405.21060): a state for each head, which decays by what a token's
// step makes of the head's rate and takes the token's input in, behind a short convolution over the
// positions. Heads of a group share what their states are written and read by. Tensors: ssm_in
// (gates and inputs of all heads, writes and reads of all groups, a step for each head), ssm_conv1d
// (a row for each input, write and read) with its bias, ssm_dt.bias, ssm_a or ssm_a_log, ssm_d (how
// much of the input goes past the state), ssm_norm (of what gates leave, group by group), ssm_out.
struct MambaConfig {
  std::uint32_t heads = 0, head_dim = 0;
  std::uint32_t groups = 1, state_dim = 0;
  std::uint32_t convolution = 4;  // positions
  bool convolution_bias = true;
  NormConfig norm;
  bool norm_first = false;  // the norm is in front of the gates
  // What ssm_in gives is multiplied by.
  float gate_scale = 1.0F, input_scale = 1.0F, write_scale = 1.0F, read_scale = 1.0F,
        step_scale = 1.0F;
  bool log_rates = false;  // ssm_a_log, the logarithms of what ssm_a has with the other sign

  std::size_t inner_size() const { return std::size_t{heads} * head_dim; }
  std::size_t channels() const { return inner_size() + std::size_t{2} * groups * state_dim; }
  std::size_t input_size() const { return inner_size() + channels() + heads; }
  // Floats that a sequence has between passes: the convolution's last inputs, and the states.
  std::size_t state_floats() const {
    return (convolution - 1) * channels() + state_dim * inner_size();
  }

  bool operator==(const MambaConfig&) const = default;
};

// A convolution of a few positions between two gates (https://arxiv.org/abs/2511.23404): of a row
// b, c and x of as many channels each, out(c * convolution(b * x)). Tensors: shortconv.in_proj,
// which gives b, c and x, shortconv.conv (a row for each channel), shortconv.out_proj.
struct ShortConvConfig {
  std::uint32_t channels = 0;
  std::uint32_t convolution = 3;  // positions

  // Floats that a sequence has between passes: the convolution's last inputs.
  std::size_t state_floats() const { return std::size_t{convolution - 1} * channels; }

  bool operator==(const ShortConvConfig&) const = default;
};

using kernels::Activation;

// down(activation(gate(x)) * up(x)), or down(activation(up(x))). Tensors: ffn_gate, ffn_up,
// ffn_down.
struct MlpConfig {
  std::uint32_t size = 0;
  Activation activation = Activation::kSilu;
  std::optional<kernels::Xielu> xielu = {};  // in place of it, where there are no gates
  bool gated = true;
  float gate_scale = 1.0F;  // of what goes into the activation, where there are gates
  bool bias = false;

  bool operator==(const MlpConfig&) const = default;
};

// What a router's logits become: the shares of their softmax, or of each by itself its sigmoid, or
// the root of log(1 + e^x).
enum class ExpertGate : std::uint8_t { kSoftmax, kSigmoid, kRootSoftplus };

// A layer of experts in place of the dense feed-forward (https://arxiv.org/abs/1701.06538). A
// token's router picks the `used` experts with the largest logits; the token gets the sum of their
// outputs by what the gate makes of the logits, times `scale`. Where experts are in groups, it
// picks among those of the groups_used groups whose largest one, or whose sum of the largest two,
// is the largest (https://arxiv.org/abs/2405.04434, https://arxiv.org/abs/2412.19437). Tensors:
// ffn_gate_inp (the router, a row for each expert), and for expert E ffn_gate.E, ffn_up.E,
// ffn_down.E; exp_probs_b.bias; ffn_gate_shexp, ffn_up_shexp, ffn_down_shexp, ffn_gate_inp_shexp.
struct ExpertsConfig {
  std::uint32_t count = 0;  // of a layer
  std::uint32_t used = 0;   // by a token
  std::uint32_t size = 0;   // of one
  ExpertGate gate = ExpertGate::kSoftmax;
  bool picks_biased = false;  // by the gate's output plus exp_probs_b.bias, which counts no further
  bool normalized = false;    // weights of a token's experts are divided by their sum
  float least_sum = 0.0F;     // which is made so much larger
  float scale = 1.0F;
  std::uint32_t groups = 1, groups_used = 1;  // of as many experts
  bool groups_by_two = false;
  Activation activation = Activation::kSilu;
  bool gated = true;              // as MlpConfig's; of the shared one, too
  bool bias = false;              // of the router and of each product
  std::uint32_t shared_size = 0;  // of one more expert that all tokens have; 0: there is none
  bool shared_gated = false;      // which is multiplied by the sigmoid of ffn_gate_inp_shexp * x
  bool by_token = false;  // a token's experts are its row of ffn_token_experts, whatever the router
  float limit = 0.0F;     // gates are at most so large, and what they multiply within +-; 0: none
  bool scaled = false;    // an expert's weight is multiplied by its element of exp_scales
  // Where there is such a norm the shared expert is a feed-forward of its own, ffn_gate, ffn_up and
  // ffn_down. Each takes and leaves rows normed for it alone, of the same residual: that one leaves
  // post_ffw_norm_1; the router takes ffn_gate_inp_norm, over the root of hidden_size, and experts
  // pre_ffw_norm_2, of which the sum is normed by post_ffw_norm_2.
  NormConfig apart = {};

  bool operator==(const ExpertsConfig&) const = default;
};

// A mixer and a feed-forward, or one of the two alone. The norm before a feed-forward alone is
// attn_norm.
struct LayerConfig {
  // The feed-forward takes what the mixer takes, mixer_norms.before(x), and x gets the sum of both
  // (https://arxiv.org/abs/2204.02311); mlp_norms.before is none then.
  bool parallel = false;
  SublayerConfig mixer_norms;
  std::variant<AttentionConfig, LatentConfig, CompressedConfig, DeltaConfig, KimiDeltaConfig,
               MambaConfig, ShortConvConfig, std::monostate>
      mixer;
  // A second mixer, beside attention: it takes what that takes, and x gets this times what it gives
  // as well.
  std::optional<MambaConfig> beside;
  float beside_scale = 1.0F;
  SublayerConfig mlp_norms;
  std::variant<MlpConfig, ExpertsConfig, std::monostate> mlp;
  bool scaled = false;  // the residual behind it is multiplied by layer_output_scale, a number

  bool mixes() const { return !std::holds_alternative<std::monostate>(mixer); }
  const AttentionConfig* attention() const { return std::get_if<AttentionConfig>(&mixer); }
  const LatentConfig* latent() const { return std::get_if<LatentConfig>(&mixer); }
  const CompressedConfig* compressed() const { return std::get_if<CompressedConfig>(&mixer); }
  const DeltaConfig* delta() const { return std::get_if<DeltaConfig>(&mixer); }
  const KimiDeltaConfig* kimi_delta() const { return std::get_if<KimiDeltaConfig>(&mixer); }
  // The layer's, be it alone or beside attention.
  const MambaConfig* mamba() const { return beside ? &*beside : std::get_if<MambaConfig>(&mixer); }
  const ShortConvConfig* short_conv() const { return std::get_if<ShortConvConfig>(&mixer); }
  const MlpConfig* dense() const { return std::get_if<MlpConfig>(&mlp); }
  const ExpertsConfig* experts() const { return std::get_if<ExpertsConfig>(&mlp); }
  bool operator==(const LayerConfig&) const = default;
};

// What a sequence's hidden rows become where a model embeds text.
enum class Pooling : std::uint8_t { kNone, kMean, kFirst, kLast };

enum class HeadFunction : std::uint8_t { kNone, kTanh, kGelu };

// What a head gives where the model ranks documents, as a score: its one number, the sigmoid of
// that, or, of two numbers, the first one's share of their softmax.
enum class Score : std::uint8_t { kNone, kNumber, kSigmoid, kShareOfTwo };

// A product behind the pooled row: norm(function(weight * x + bias)). Tensors: NAME, NAME.norm.
struct HeadConfig {
  std::string name;
  std::uint32_t size = 0;  // of what it gives
  bool bias = false;
  HeadFunction function = HeadFunction::kNone;
  NormConfig norm;

  bool operator==(const HeadConfig&) const = default;
};

// Hyper-connections (https://arxiv.org/abs/2409.19606, https://arxiv.org/abs/2512.24880): a
// token has several residuals, streams of hidden_size each. A sublayer takes a sum of them, what it
// gives goes back to each, and they are mixed, all by weights that follow from the streams
// themselves; the matrix that mixes is made doubly stochastic (Sinkhorn). Tensors of a sublayer:
// hc_attn and hc_ffn .fn, .base, .scale; of the sum before the last norm: output_hc.*.
struct HyperConfig {
  std::uint32_t streams = 1;  // 1: an ordinary residual
  std::uint32_t iterations = 0;
  float epsilon = 0.0F;       // of the weights
  float norm_epsilon = 0.0F;  // of the streams' norm

  std::uint32_t weights() const { return (2 + streams) * streams; }
  bool operator==(const HyperConfig&) const = default;
};

// What each layer gets of a token beside the residual: `size` elements, the token's share of
// per_layer_token_embd and of per_layer_model_proj times its embedding. Behind its feed-forward a
// layer adds proj * (activation(inp_gate * x) * input), normed by post_norm. Tensors:
// per_layer_token_embd and per_layer_model_proj, of all layers, one after the other,
// per_layer_proj_norm; of a layer inp_gate, proj, post_norm.
struct LayerInputConfig {
  std::uint32_t size = 0;        // 0: there is none
  float embedding_scale = 1.0F;  // of the token's share
  NormConfig norm;               // of what the product gives, over the root of hidden_size
  Activation activation = Activation::kGeluTanh;

  bool operator==(const LayerInputConfig&) const = default;
};

// The shape of a model, already checked to be consistent with its tensors.
struct ModelConfig {
  std::string family;  // the name of its row in the registry
  std::uint32_t vocab_size = 0;
  std::uint32_t hidden_size = 0;
  std::uint32_t max_context = 0;  // positions the model was made for

  // Of token_embd, and before the first layer: what embeddings are multiplied with; position_embd
  // and token_types are added; token_embd_norm.
  float embedding_scale = 1.0F;
  bool learned_positions = false;
  std::uint32_t position_offset = 0;  // of position_embd: the row of position 0
  bool token_types = false;           // of two, where there is a second text
  NormConfig embedding_norm;

  std::vector<RopeConfig> ropes;
  std::vector<LayerConfig> layers;
  HyperConfig hyper;
  LayerInputConfig layer_inputs;

  // Layers that the file has behind these, to draft tokens with.
  std::uint32_t draft_layers = 0;
  // The first of them, where it can be run (multi-token prediction,
  // https://arxiv.org/abs/2412.19437): behind nextn.eh_proj of two rows, the embedding of the next
  // token normed by nextn.enorm and this token's hidden row normed by nextn.hnorm; in front of
  // nextn.shared_head_norm and the model's logits. Its norms are as output_norm. Where there are
  // hyper-connections: behind nextn.e_proj of the first row plus nextn.h_proj of each stream, and
  // nextn.hc_head.* in front.
  std::optional<LayerConfig> draft_layer;

  NormConfig output_norm;
  bool has_logits = true;        // else there are hidden rows alone, and no output.weight
  bool tied_embeddings = false;  // output.weight is token_embd.weight
  float logit_scale = 1.0F;
  float logit_softcap = 0.0F;  // 0: none
  Pooling pooling = Pooling::kNone;
  std::vector<HeadConfig> head;  // one behind the other
  Score score = Score::kNone;    // else the model embeds texts, as far as it does

  // Before the names of the draft layer's tensors.
  std::string draft_prefix() const { return "blk." + std::to_string(layers.size()) + "."; }

  // Of the pooled row, or what its head makes of it.
  std::uint32_t embedding_size() const { return head.empty() ? hidden_size : head.back().size; }

  // No token sees what follows it.
  bool causal() const {
    return std::all_of(layers.begin(), layers.end(), [](const LayerConfig& layer) {
      return layer.attention() == nullptr || layer.attention()->causal;
    });
  }
};

}  // namespace dovetail::load
