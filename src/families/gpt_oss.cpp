// gpt-oss: experts in every layer, biases everywhere, every other layer slides, and each head has a
// logit that only takes weight away (a sink).

#include <fmt/core.h>

#include <cstring>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "families/turned_experts.h"
#include "families/windows.h"
#include "kernels/functions.h"
#include "load/quote.h"
#include "load/stored_parts.h"

namespace dovetail::families {
namespace {

constexpr Rename kGptOssNames[] = {
    {"model.layers.*.self_attn.sinks", "blk.*.attn_sinks.weight"},
    {"model.layers.*.mlp.router", "blk.*.ffn_gate_inp"},
    {"model.layers.*.mlp.experts.gate_up_proj", "blk.*.ffn_gate_up_pairs.weight"},
    {"model.layers.*.mlp.experts.gate_up_proj_bias", "blk.*.ffn_gate_up_pairs.bias"},
    {"model.layers.*.mlp.experts.down_proj", "blk.*.ffn_down_of_folder.weight"},
    {"model.layers.*.mlp.experts.down_proj_bias", "blk.*.ffn_down_exps.bias"},
};

constexpr Rename kGptOssGgufNames[] = {
    {"blk.*.post_attention_norm", "blk.*.ffn_norm"},
};

// What transformers takes for a config.json that says nothing of it, or null.
void scale_as_usual(RopeConfig& rope) {
  rope.scaling = load::RopeScaling::kYarn;
  rope.factor = 32.0F;
  rope.beta_fast = 32.0F;
  rope.beta_slow = 1.0F;
  rope.truncate = false;
  rope.original_context = 4096;
  rope.attention_factor = 0.1F * static_cast<float>(kernels::log(rope.factor)) + 1.0F;
}

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
  constexpr Key kSlope = {"", "swiglu_alpha"};
  const auto slope = fields.number(kSlope, 0.0F, load::kLargestFactor);
  if (slope && *slope != 1.702F) fields.reject(kSlope, fmt::format("{}", *slope), "1.702");
  const std::uint32_t layers = read_sizes(fields, config);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config, 64);
  attention.bias = fields.flag({"", "attention_bias"}).value_or(true);
  attention.output_bias = attention.bias;
  attention.sinks = true;
  config.ropes = {read_rope(fields, {.head_dim = attention.head_dim, .theta = 150000.0F}, config)};
  if (!fields.gguf() && !fields.has({"", "rope_parameters"}) && !fields.has({"", "rope_scaling"}))
    scale_as_usual(config.ropes.front());
  const std::uint32_t window = read_window(fields, 128).value_or(0);
  for (const bool slide : read_sliding_layers(fields, layers, window == 0 ? 0 : 2)) {
    attention.window = slide ? window : 0;
    config.layers.push_back(plain_layer(norm, attention, experts));
  }
}

constexpr std::string_view kPairs = "ffn_gate_up_pairs";
constexpr std::string_view kDown = "ffn_down_of_folder";

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
  std::vector<std::pair<std::string, load::StoredTensor>> made;
  for (const auto& [name, tensor] : tensors) {
    const bool pairs = name.find(kPairs) != std::string::npos;
    if (!name.starts_with("blk.") || (!pairs && name.find(kDown) == std::string::npos)) continue;
    const bool bias = name.ends_with(".bias");
    const auto reject = [&of = tensor](const std::string& value, std::string_view valid) {
      return fail(ErrorKind::kUnsupported, "{}: tensor {}: {}; valid: {}", of.file,
                  load::quote(of.stored_name), value, valid);
    };
    const std::string type = fmt::format("type {}", load::quote(tensor.stored_type));
    if (!tensor.parts && (!tensor.type || !kernels::is_plain(*tensor.type))) {
      return reject(type, bias ? "F32, F16 or BF16" : "MXFP4, F32, F16 or BF16");
    }
    if (tensor.shape.size() != (bias ? 2 : 3)) {
      return reject("shape " + load::shape_text(tensor.shape),
                    bias ? "[experts, 2 x size]" : "three dimensions, of which experts are one");
    }
    load::StoredTensor whole = tensor;
    if (!bias && !tensor.parts) {
      if (auto status = turn(whole); !status) return status;
    }
    const std::string layer = name.substr(0, name.find("ffn_"));
    if (!pairs) {
      made.emplace_back(layer + "ffn_down_exps.weight", whole);
      continue;
    }
    if (whole.shape[1] % 2 != 0) {
      return reject("shape " + load::shape_text(tensor.shape), "as many gates as ups");
    }
    const std::string ending = bias ? "_exps.bias" : "_exps.weight";
    for (const auto& [stem, first] : {std::pair{"ffn_gate", 0U}, std::pair{"ffn_up", 1U}}) {
      made.emplace_back(layer + stem + ending,
                        bias ? half_of_bias(whole, first, owned) : half_of(whole, first));
    }
  }
  std::erase_if(tensors, [](const auto& entry) {
    const std::string& name = entry.first;
    return name.starts_with("blk.") &&
           (name.find(kPairs) != std::string::npos || name.find(kDown) != std::string::npos);
  });
  for (auto& [name, tensor] : made) tensors.emplace(name, std::move(tensor));
  return {};
}

}  // namespace

constinit const Reader kGptOss = {read_gpt_oss, kGptOssNames, kGptOssGgufNames, {}, split_pairs};

}  // namespace dovetail::families
