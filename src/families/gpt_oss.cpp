// gpt-oss: experts in every layer, biases everywhere, every other layer slides, and each head has a
// logit that only takes weight away (a sink).

#include <fmt/core.h>

#include <cstring>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/windows.h"
#include "load/quote.h"
#include "load/stored_parts.h"

namespace dovetail::families {
namespace {

constexpr Rename kGptOssNames[] = {
    {"model.layers.*.self_attn.sinks", "blk.*.attn_sinks.weight"},
    {"model.layers.*.mlp.router", "blk.*.ffn_gate_inp"},
    {"model.layers.*.mlp.experts.gate_up_proj", "blk.*.ffn_gate_up_pairs.weight"},
    {"model.layers.*.mlp.experts.gate_up_proj_bias", "blk.*.ffn_gate_up_pairs.bias"},
    {"model.layers.*.mlp.experts.down_proj", "blk.*.ffn_down_exps.weight"},
    {"model.layers.*.mlp.experts.down_proj_bias", "blk.*.ffn_down_exps.bias"},
};

constexpr Rename kGptOssGgufNames[] = {
    {"blk.*.post_attention_norm", "blk.*.ffn_norm"},
};

void read_gpt_oss(Fields& fields, ModelConfig& config) {
  ExpertsConfig experts =
      read_experts(fields, {.count = "num_local_experts",
                            .size = {"expert_feed_forward_length", "intermediate_size"},
                            .gating = 3,
                            .kind = "softmax of those chosen"});
  experts.normalized = true;
  experts.bias = true;
  experts.activation = load::Activation::kClampedSwiglu;
  constexpr Key kLimit = {"", "swiglu_limit"};
  const auto limit = fields.number(kLimit, 0.0F, load::kLargestFactor);
  if (limit && *limit != 7.0F) fields.reject(kLimit, fmt::format("{}", *limit), "7");
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config, 64);
  attention.bias = fields.flag({"", "attention_bias"}).value_or(true);
  attention.output_bias = attention.bias;
  attention.sinks = true;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim, .theta = 150000.0F}, config)};
  const std::uint32_t window = read_window(fields).value_or(0);
  for (const bool slide : read_sliding_layers(fields, layers, window == 0 ? 0 : 2)) {
    attention.window = slide ? window : 0;
    config.layers.push_back(plain_layer(norm, attention, experts));
  }
}

// Every other row: of gates the even ones, of ups the odd ones.
load::StoredTensor half_of(const load::StoredTensor& pairs, std::size_t first) {
  load::StoredTensor out = pairs;
  out.shape[1] /= 2;
  auto parts = std::make_shared<load::StoredParts>(*pairs.parts);
  parts->rows /= 2;
  parts->first_row = first;
  parts->row_step = 2;
  out.parts = std::move(parts);
  return out;
}

// The same of a bias, whose elements have to be copied for that.
load::StoredTensor half_of_bias(const load::StoredTensor& pairs, std::size_t first, Owned& owned) {
  load::StoredTensor out = pairs;
  out.shape[1] /= 2;
  const std::size_t size = kernels::row_bytes(*pairs.type, 1);
  auto bytes = std::make_shared<std::vector<std::byte>>(pairs.data.size() / 2);
  for (std::size_t at = 0; at < bytes->size(); at += size) {
    std::memcpy(bytes->data() + at, pairs.data.data() + 2 * at + first * size, size);
  }
  out.data = *bytes;
  owned.push_back(std::move(bytes));
  return out;
}

// Folders store gate and up of an expert row by row in turn.
Status split_pairs(load::StoredTensors& tensors, Owned& owned) {
  std::vector<std::pair<std::string, load::StoredTensor>> halves;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t found = name.find("ffn_gate_up_pairs");
    if (found == std::string::npos || !name.starts_with("blk.")) continue;
    const bool bias = name.ends_with(".bias");
    const auto reject = [&pairs = tensor](const std::string& value, std::string_view valid) {
      return fail(ErrorKind::kUnsupported, "{}: tensor {}: {}; valid: {}", pairs.file,
                  load::quote(pairs.stored_name), value, valid);
    };
    if (tensor.shape.size() != (bias ? 2 : 3) || tensor.shape[1] % 2 != 0) {
      return reject("shape " + load::shape_text(tensor.shape),
                    bias ? "[experts, 2 x size]" : "[experts, 2 x size, hidden size]");
    }
    if (!bias && !tensor.parts) {
      return reject(fmt::format("type {}", load::quote(tensor.stored_type)), "MXFP4");
    }
    if (bias && (!tensor.type || !kernels::is_plain(*tensor.type))) {
      return reject(fmt::format("type {}", load::quote(tensor.stored_type)), "F32, F16 or BF16");
    }
    const std::string layer = name.substr(0, found);
    const std::string ending = bias ? "_exps.bias" : "_exps.weight";
    for (const auto& [stem, first] : {std::pair{"ffn_gate", 0U}, std::pair{"ffn_up", 1U}}) {
      halves.emplace_back(layer + stem + ending,
                          bias ? half_of_bias(tensor, first, owned) : half_of(tensor, first));
    }
  }
  std::erase_if(tensors, [](const auto& entry) {
    return entry.first.starts_with("blk.") &&
           entry.first.find("ffn_gate_up_pairs") != std::string::npos;
  });
  for (auto& [name, tensor] : halves) tensors.emplace(name, std::move(tensor));
  return {};
}

}  // namespace

constinit const Reader kGptOss = {read_gpt_oss, kGptOssNames, kGptOssGgufNames, {}, split_pairs};

}  // namespace dovetail::families
