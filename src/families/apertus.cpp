// Apertus (https://arxiv.org/abs/2509.14233): norms of heads, and a feed-forward without a gate,
// whose activation, xIELU (https://arxiv.org/abs/2411.13010), each layer has learned for itself.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "families/common.h"
#include "families/families.h"
#include "families/rope.h"
#include "kernels/functions.h"
#include "load/gguf_fields.h"
#include "load/quote.h"

namespace dovetail::families {
namespace {

// What a layer has learned, as it is stored.
struct Learned {
  float positive = 0.0F, negative = 0.0F;
  float linear = 0.5F, edge = -1e-6F;
};

struct Part {
  std::string_view name;  // of a GGUF file's key, and of a folder's tensor behind the layer's name
  float Learned::*value;
  bool required;
};
constexpr Part kParts[] = {
    {"xielu.alpha_p", &Learned::positive, true},
    {"xielu.alpha_n", &Learned::negative, true},
    {"xielu.beta", &Learned::linear, false},
    {"xielu.eps", &Learned::edge, false},
};

bool is_usable(float value) {
  return std::isfinite(value) && std::abs(value) <= load::kLargestFactor;
}

float softplus(float x) {
  return x > 20.0F ? x : static_cast<float>(kernels::log(1.0 + kernels::exp(x)));
}

kernels::Xielu curve_of(const Learned& of) {
  return {.positive = softplus(of.positive),
          .negative = of.linear + softplus(of.negative),
          .linear = of.linear,
          .edge = of.edge};
}

// One number for each layer, or one for all.
void read_gguf_part(Fields& fields, const Part& part, std::vector<Learned>& layers) {
  load::GgufFields& gguf = fields.of_gguf();
  std::vector<float> values;
  if (gguf.is_array(part.name)) {
    values = gguf.floats(part.name);
  } else if (const auto one =
                 gguf.optional_float(part.name, -load::kLargestFactor, load::kLargestFactor)) {
    values.assign(layers.size(), *one);
  } else if (!part.required) {
    return;
  }
  const bool usable = std::all_of(values.begin(), values.end(), is_usable);
  if (values.size() != layers.size() || !usable) {
    gguf.reject(part.name,
                gguf.has(part.name) ? fmt::format("{} values", values.size()) : "missing",
                fmt::format("a number for each of the {} layers, within {}", layers.size(),
                            load::kLargestFactor));
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) layers[i].*part.value = values[i];
}

// A tensor of one number.
void read_tensor(Fields& fields, const Part& part, std::size_t layer, Learned& learned) {
  const std::string name = fmt::format("blk.{}.{}", layer, part.name);
  const load::StoredTensor* tensor = fields.tensor(name);
  if (tensor == nullptr) {
    if (part.required) {
      fields.take_failure(fail(ErrorKind::kInvalid, "{}: tensor {}: missing; valid: a number",
                               fields.file(), load::quote(name)));
    }
    return;
  }
  using kernels::DataType;
  const bool floats = tensor->type == DataType::kF32 || tensor->type == DataType::kF16 ||
                      tensor->type == DataType::kBF16;
  const bool single = std::all_of(tensor->shape.begin(), tensor->shape.end(),
                                  [](std::uint64_t size) { return size == 1; });
  float value = NAN;
  if (floats && single && !tensor->parts)
    kernels::best_kernels().dequantize_row(*tensor->type, tensor->data.data(), 1, &value);
  if (!is_usable(value)) {
    fields.take_failure(fail(ErrorKind::kInvalid,
                             "{}: tensor {}: type {}, shape {}, {}; valid: one finite number of "
                             "type F32, F16 or BF16",
                             tensor->file, load::quote(tensor->stored_name), tensor->stored_type,
                             load::shape_text(tensor->shape), value));
    return;
  }
  learned.*part.value = value;
}

// The activation of each layer.
std::vector<kernels::Xielu> read_curves(Fields& fields, std::uint32_t layers) {
  // A configuration alone says nothing of them.
  if (!fields.gguf() && fields.tensors() == 0) return std::vector<kernels::Xielu>(layers);
  std::vector<Learned> learned(layers);
  for (const Part& part : kParts) {
    if (fields.gguf()) {
      read_gguf_part(fields, part, learned);
      continue;
    }
    for (std::uint32_t i = 0; i < layers; ++i) read_tensor(fields, part, i, learned[i]);
  }
  std::vector<kernels::Xielu> out;
  for (const Learned& of : learned) out.push_back(curve_of(of));
  return out;
}

load::RopeConfig read_apertus_rope(Fields& fields, std::uint32_t head_dim, ModelConfig& config) {
  constexpr float kTheta = 12000000.0F;
  load::RopeConfig rope = read_rope(fields, {.head_dim = head_dim, .theta = kTheta}, config);
  if (fields.gguf() || fields.has({"", "rope_parameters"}) || fields.has({"", "rope_scaling"}))
    return rope;
  // What a config.json means that says nothing of a scaling. With a base of its own it is not the
  // same to all versions of transformers.
  if (rope.theta != kTheta) {
    fields.reject({"", "rope_theta"}, fmt::format("{}", rope.theta),
                  fmt::format("{}, or a rope_scaling beside it", kTheta));
  }
  rope.scaling = load::RopeScaling::kLlama3;
  rope.factor = 8.0F;
  rope.original_context = 8192;
  rope.low_freq_factor = 1.0F;
  rope.high_freq_factor = 4.0F;
  return rope;
}

void read_apertus(Fields& fields, ModelConfig& config) {
  const std::uint32_t layers = read_sizes(fields, config);
  must_say(fields, "hidden_act", "xielu");
  must_be(fields, "qk_norm", true);
  must_be(fields, "post_norm", false);
  const NormConfig norm = read_rms_norm(fields, 1e-5F);
  config.output_norm = norm;
  AttentionConfig attention = read_heads(fields, config);
  attention.bias = attention.output_bias = fields.flag({"", "attention_bias"}).value_or(false);
  attention.query_key_norm = load::QueryKeyNorm::kHead;
  attention.norm = norm;
  config.ropes = {read_apertus_rope(fields, attention.head_dim, config)};
  MlpConfig mlp = read_mlp(fields);
  mlp.gated = false;
  for (const kernels::Xielu& curve : read_curves(fields, layers)) {
    mlp.xielu = curve;
    config.layers.push_back(plain_layer(norm, attention, mlp));
  }
}

constexpr Rename kApertusNames[] = {
    {"model.layers.*.attention_layernorm", "blk.*.attn_norm"},
    {"model.layers.*.feedforward_layernorm", "blk.*.ffn_norm"},
    {"model.layers.*.mlp.act_fn.alpha_p", "blk.*.xielu.alpha_p"},
    {"model.layers.*.mlp.act_fn.alpha_n", "blk.*.xielu.alpha_n"},
    {"model.layers.*.mlp.act_fn.beta", "blk.*.xielu.beta"},
    {"model.layers.*.mlp.act_fn.eps", "blk.*.xielu.eps"},
};

}  // namespace

constinit const Reader kApertus = {read_apertus, kApertusNames};

}  // namespace dovetail::families
