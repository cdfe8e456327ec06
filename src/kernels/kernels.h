#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/cache_type.h"
#include "kernels/data_type.h"

namespace dovetail::kernels {

// Positions that attention reduces by themselves and merges in their order, from position 0 on.
inline constexpr std::size_t kAttentionSegment = 1024;

// Floats that attention leaves of a segment for one row and head.
constexpr std::size_t attention_part_floats(std::size_t value_dim) {
  return kBlockSize + padded_dims(value_dim);
}

// Rows of weights in a packed panel.
inline constexpr std::size_t kPanelRows = 16;

enum class Function : std::uint8_t { kExp, kSigmoid, kTanh, kErf, kSoftplus };

// What a feed-forward's gate goes through before it is multiplied with `up`.
enum class Activation : std::uint8_t {
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): "gelu_pytorch_tanh"
  kGelu,      // x / 2 (1 + erf(x / sqrt(2)))
  kRelu2,     // max(x, 0)^2
  // gpt-oss's (https://arxiv.org/abs/2508.10925): g / (1 + e^(-1.702 g)) for g = min(x, 7), times
  // 1 + up, where up is brought into [-7, 7] first.
  kClampedSwiglu,
};

// xIELU (https://arxiv.org/abs/2411.13010): above zero positive x^2 + linear x, else
// negative (e^min(x, edge) - 1 - x) + linear x.
struct Xielu {
  float positive = 0.8F, negative = 0.8F;
  float linear = 0.5F;
  float edge = -1e-6F;

  bool operator==(const Xielu&) const = default;
};

// y[m][n] = sum over k of x[m][k] * w[n][k], for n in [n_begin, n_end).
struct MatmulArgs {
  DataType type = DataType::kF32;  // of the weights
  // [N][K]: rows of row_bytes(type, K) bytes at any alignment; or, if packed, panels that pack()
  // wrote, 64-byte aligned.
  const std::byte* weights = nullptr;
  bool packed = false;
  const std::byte* activations =
      nullptr;  // [M] rows written by prepare() for the same type, 64-byte aligned
  std::size_t activation_stride = 0;  // bytes between them
  float* output = nullptr;            // [M][...], element (m, n) at output[m * output_stride + n]
  std::size_t output_stride = 0;      // floats
  std::size_t m = 0, k = 0;
  std::size_t n_begin = 0, n_end = 0;  // packed: n_begin is a multiple of kPanelRows
};

// Attention of `rows` consecutive positions of one sequence, for the query heads that share one
// key/value head. Softmax(q·k * scale) v over the positions p with  max(0, position - window + 1)
// <= p <= position,  or, unless causal, <= min(end - 1, position + window - 1). The walk over the
// context goes in segments and spans of blocks anchored at absolute position 0, so that a row's
// bits do not depend on the rows beside it. What lies in positions that a row may not see never
// reaches its output: it may be NaN. Pointers of blocks that no row sees may be null.
struct AttentionArgs {
  CacheType cache_type = CacheType::kF32;
  // One pointer per block of the context: its tile of this layer and key/value head, laid out as
  // cache_type.h says.
  const std::byte* const* key_blocks = nullptr;
  const std::byte* const* value_blocks = nullptr;
  // Keys lie in the values' tiles, which are of head_dim dimensions, and a value is the first
  // value_dim of them, as in latent attention (https://arxiv.org/abs/2405.04434). key_blocks is
  // not looked at.
  bool latent = false;
  const float* query =
      nullptr;  // element (row, head, d) at query[row * query_stride + head * head_dim + d]
  std::size_t query_stride = 0;  // floats
  float* output = nullptr;       // the same layout, of value_dim
  std::size_t output_stride = 0;
  std::size_t rows = 0;            // any number
  std::size_t heads = 0;           // query heads per key/value head
  std::size_t head_dim = 0;        // any number, 512 at most, or kMostLatentDims
  std::size_t value_dim = 0;       // the same; 0: head_dim
  std::size_t first_position = 0;  // of row 0
  std::size_t window = 0;          // 0: all
  float scale = 1.0F;
  bool causal = true;   // false: rows see what follows them, too,
  std::size_t end = 0;  // before this position, which is behind the last row's
  // Not 0: scores s become softcap * tanh(s / softcap), as Gemma 2's do.
  float softcap = 0.0F;
  // A logit per head that takes part in its softmax but has no value, as gpt-oss's do, or null.
  // Applied to finished sums: parts of one segment do not have it.
  const float* sinks = nullptr;

  // Takes the positions of this segment alone, and leaves for row and head a part for
  // merge_attention(): attention_part_floats(value_dim) floats at output[row * output_stride + head
  // * attention_part_floats(value_dim)]. Pointers of other segments' blocks may be null.
  static constexpr std::size_t kAllSegments = static_cast<std::size_t>(-1);
  std::size_t segment = kAllSegments;
};

// One token's step of one head's gated delta rule (https://arxiv.org/abs/2412.06464, as
// torch_recurrent_gated_delta_rule of Hugging Face's Qwen3-Next computes it), in place:
//   S = S * decay;  S = S + key (v - S^T key)^T beta;  output = S^T query
// Sums over the key's dimensions are chains from the first on.
struct DeltaRuleArgs {
  float* state = nullptr;                  // S: [key_dim][value_dim], at any alignment
  const float* query = nullptr;            // [key_dim], normalised and scaled
  const float* key = nullptr;              // [key_dim], normalised
  const float* value = nullptr;            // [value_dim]
  float decay = 1.0F;                      // e^g, from 0 to 1
  float beta = 1.0F;                       // how much of the difference is written
  std::size_t key_dim = 0, value_dim = 0;  // any numbers
  float* output = nullptr;                 // [value_dim]; may be value, but nothing else of these
};

// One token's step of one head of a selective state space (Mamba-2,
// https://arxiv.org/abs/2405.21060), in place:
//   S = S * decay + write (step x)^T;  output = S^T read + skip x
// Sums over the state's dimensions are chains from the first on.
struct StateSpaceArgs {
  float* state = nullptr;                   // S: [state_dim][head_dim], at any alignment
  const float* input = nullptr;             // x: [head_dim]
  const float* write = nullptr;             // [state_dim], the paper's B
  const float* read = nullptr;              // [state_dim], its C
  float decay = 1.0F;                       // from 0 to 1
  float step = 1.0F;                        // how much of the input is written
  float skip = 0.0F;                        // how much of it is in the output
  std::size_t state_dim = 0, head_dim = 0;  // any numbers
  float* output = nullptr;                  // [head_dim]; may be input, but nothing else of these
};

// One position of a causal convolution of every channel by itself: output[c] = sum over j, from 0
// on, of rows[j][c] * weights[j][c], and then the bias.
struct ShortConvArgs {
  const float* const* rows = nullptr;   // [width]: inputs of positions, oldest first; null: zeros
  const float* weights = nullptr;       // [width][channels]
  const float* bias = nullptr;          // [channels] or null
  std::size_t width = 0, channels = 0;  // any numbers
  float* output = nullptr;              // [channels]; may be one of the rows
};

// The arithmetic of one instruction set. Every function is pure and thread-safe, and every output
// element is reduced in one order that depends on its own inputs and on k, n or head_dim alone:
// never on m, on the rows or columns computed in the same call, on alignment, nor on the
// instruction set, but for BF16 weights where rounds_bf16.
struct Kernels {
  // "portable", "avx2", "avx2_vnni", "avx512", "avx512_vnni", "avx512_bf16", "amx"
  std::string_view name;
  // Whether activations for BF16 weights are rounded to BF16, so that their products have other
  // bits than those of sets that do not.
  bool rounds_bf16 = false;

  // Activations are brought into the form that a weight type multiplies with (F32, BF16 pairs,
  // 8-bit blocks): once per row, used by all its products. Bytes per prepared row, a multiple
  // of 64. k must be a multiple of the type's block.
  std::size_t (*activation_bytes)(DataType weights, std::size_t k);
  void (*prepare)(DataType weights, const float* x, std::size_t k, std::byte* out);
  void (*matmul)(const MatmulArgs& args);

  // Weights of block types are multiplied faster when packed: sixteen rows to a panel, in the width
  // of their codes, which may be more than the file's (docs/models.md), the same bytes for every
  // instruction set. Products have the same bits either way. Bytes of a panel, a multiple of 64; 0
  // for types that stay as they are.
  std::size_t (*panel_bytes)(DataType type, std::size_t k);
  // Packs `rows` rows of row_bytes(type, k) bytes each, at any alignment, into panels one after
  // another; the rows that the last one lacks are zeros. Requires panel_bytes() > 0.
  void (*pack)(DataType type, const std::byte* weights, std::size_t rows, std::size_t k,
               std::byte* out);

  void (*attention)(const AttentionArgs& args);
  // The output of one row and head, value_dim floats, from its parts: that of segment i at
  // parts[i * stride], for all of a context or for those of which it sees something. A part is the
  // maximum of the scores, the sum of the weights relative to it, and from float 16 on the values'
  // sum by these weights. One whose weights sum to 0 is of no positions, be its maximum -inf or
  // +inf; where all are, the output is zeros. `sink` is the head's in AttentionArgs::sinks, or
  // null. The same bits as attention() of all segments.
  void (*merge_attention)(const float* parts, std::size_t count, std::size_t stride,
                          std::size_t value_dim, const float* sink, float* output);

  // One row of a weight matrix as floats (embedding look-up).
  void (*dequantize_row)(DataType type, const std::byte* row, std::size_t k, float* out);

  // out[i] = x[i] * weight[i] / sqrt(mean(x^2) + epsilon); a null weight is ones; out may be x.
  void (*rms_norm)(const float* x, const float* weight, std::size_t n, float epsilon, float* out);
  // out[i] = (x[i] - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * weight[i] + bias[i]; a null
  // weight is ones, a null bias zeros; out may be x.
  void (*layer_norm)(const float* x, const float* weight, const float* bias, std::size_t n,
                     float epsilon, float* out);
  // out[i] = x[i] / sqrt(sum(x^2) + epsilon); out may be x.
  void (*l2_norm)(const float* x, std::size_t n, float epsilon, float* out);
  // Rotates one head in place. cos and sin have head_dim/2 elements, already scaled. Pairs are (2i,
  // 2i+1) if interleaved, else (i, i + head_dim/2).
  void (*rope)(float* head, const float* cos, const float* sin, std::size_t head_dim,
               bool interleaved);
  // out[i] = activation(gate[i]) * up[i]; up may be null, which is activation(gate[i]) alone; out
  // may be gate or up. The error is under 2e-7 |gate[i] * up[i]|, times |gate[i]| for a square and
  // with |up[i]| + 1 for |up[i]| where that is the factor; the exponential's relative error is
  // under 2e-7. NaN in either gives NaN.
  void (*gate)(Activation activation, const float* gate, const float* up, std::size_t n,
               float* out);
  // out[i] = curve(x[i]); out may be x. The error is under 3e-7 of |x| (positive |x| + linear)
  // above zero, and of (negative + linear) (|x| + |edge|) below.
  void (*xielu)(const Xielu& curve, const float* x, std::size_t n, float* out);
  // out[i] = function(x[i]); out may be x. Relative error under 4e-7 where the result is normal.
  void (*apply)(Function function, const float* x, std::size_t n, float* out);
  // x[i] += y[i]
  void (*add)(float* x, const float* y, std::size_t n);
  // x[i] += y[i] * factor, rounded twice
  void (*add_scaled)(float* x, const float* y, float factor, std::size_t n);
  // x[i] *= y[i]
  void (*multiply)(float* x, const float* y, std::size_t n);
  // x[i] *= factor
  void (*scale)(float* x, float factor, std::size_t n);
  void (*delta_rule)(const DeltaRuleArgs& args);
  void (*state_space)(const StateSpaceArgs& args);
  void (*short_conv)(const ShortConvArgs& args);
  // One position's floats, head_dim of them, rounded (to nearest even) into a tile of the cache:
  // see cache_type.h. Other positions' bytes are not touched. Position is that within the block.
  void (*store_key)(CacheType type, const float* key, std::size_t head_dim, std::size_t position,
                    std::byte* tile);
  void (*store_value)(CacheType type, const float* value, std::size_t head_dim,
                      std::size_t position, std::byte* tile);
  // The floats that a tile of values has for the block's positions [first, end): [end -
  // first][head_dim]. No other position's bytes are read, but for those of scales.
  void (*load_values)(CacheType type, const std::byte* tile, std::size_t head_dim,
                      std::size_t first, std::size_t end, float* out);
};

// The instruction sets that this build has and this CPU runs, best first; never empty ("portable"
// is always there).
std::span<const Kernels* const> available_kernels();

// The best of them.
const Kernels& best_kernels();

// The one called `name`, or nullptr where the CPU or the build lacks it.
const Kernels* find_kernels(std::string_view name);

}  // namespace dovetail::kernels
