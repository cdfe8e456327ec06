#include "families/latent.h"

#include <fmt/core.h>

#include "families/grouped_experts.h"

namespace dovetail::families {

using load::LatentConfig;

LatentConfig read_latent_sizes(Fields& fields, const NormConfig& norm) {
  constexpr std::uint32_t kLargest = load::kLargestHeadDim;
  LatentConfig out;
  out.norm = norm;
  // transformers has this number for norms of latents, whatever the configuration says.
  if (!fields.gguf()) out.norm.epsilon = 1e-6F;
  out.heads =
      fields.required_uniform({"attention.head_count", "num_attention_heads"}, 1, load::kMostHeads);
  // As many as there are heads, or the one that latents are for all of them.
  fields.ask({"attention.head_count_kv", "num_key_value_heads"});
  fields.ask({"", "head_dim"});
  fields.ask({"", "qk_head_dim"});
  out.latent_dim =
      fields.required_count({"attention.kv_lora_rank", "kv_lora_rank"}, 1, load::kLargestLatent);
  out.query_rank =
      count_or_none(fields, {"attention.q_lora_rank", "q_lora_rank"}, load::kLargestHiddenSize);
  out.rope_dim = fields.required_count({"rope.dimension_count", "qk_rope_head_dim"}, 2, kLargest);
  if (fields.gguf()) {
    out.split = fields.has_tensor("blk.0.attn_k_b.weight");
    // Files of latents for all heads give the sizes of these, and those of the heads beside them.
    const bool latents = fields.has({"attention.key_length_mla", ""});
    const Key key = {latents ? "attention.key_length_mla" : "attention.key_length", ""};
    const Key value = {latents ? "attention.value_length_mla" : "attention.value_length", ""};
    fields.ask({"attention.key_length", ""});
    fields.ask({"attention.value_length", ""});
    const std::uint32_t head = fields.required_count(key, 1, kLargest);
    if (head <= out.rope_dim) {
      fields.reject(key, fmt::format("{}", head),
                    fmt::format("more than the {} elements that turn", out.rope_dim),
                    ErrorKind::kInvalid);
    }
    out.key_dim = head > out.rope_dim ? head - out.rope_dim : 1;
    out.value_dim = fields.required_count(value, 1, kLargest);
  } else {
    out.key_dim = fields.required_count({"", "qk_nope_head_dim"}, 1, kLargest);
    out.value_dim = fields.required_count({"", "v_head_dim"}, 1, kLargest);
  }
  return out;
}

}  // namespace dovetail::families
