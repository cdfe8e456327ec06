// dots.llm1 (https://arxiv.org/abs/2506.05767): attention as Qwen3 has it, and behind a few dense
// layers experts as DeepSeek-V3 has them.

#include "families/common.h"
#include "families/families.h"
#include "families/grouped_experts.h"
#include "families/rope.h"
#include "families/windows.h"

namespace dovetail::families {
namespace {

void read_dots1(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-6F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim}, config)};
  read_grouped_layers(fields, plain_layer(norm, attention, MlpConfig()), layers, config);
  const std::uint32_t full =
      fields.count({"", "max_window_layers"}, 0, load::kLargestContext).value_or(62);
  const std::vector<std::uint32_t> windows =
      read_windows(fields, layers, !fields.gguf(), full, 4096);
  for (std::size_t i = 0; i < windows.size(); ++i)
    std::get<AttentionConfig>(config.layers[i].mixer).window = windows[i];
}

}  // namespace

constinit const Reader kDots1 = {read_dots1};

}  // namespace dovetail::families
