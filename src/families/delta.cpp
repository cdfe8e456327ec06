#include "families/delta.h"

#include <fmt/core.h>

#include "families/common.h"
#include "load/limits.h"

namespace dovetail::families {
namespace {

constexpr std::uint32_t kMostDim = 1024;     // of a head
constexpr std::uint32_t kUsualInterval = 4;  // of layers with attention

std::uint32_t divided(Fields& fields, Key key, std::uint32_t value, std::uint32_t by,
                      std::string_view what) {
  if (by == 0 || value % by != 0) {
    fields.reject(key, fmt::format("{}", value), fmt::format("a multiple of the {} {}", by, what),
                  ErrorKind::kInvalid);
    return 0;
  }
  return value / by;
}

}  // namespace

load::DeltaConfig read_delta(Fields& fields, float epsilon) {
  load::DeltaConfig out;
  out.epsilon = epsilon;
  constexpr Key kValueHeads = {"ssm.time_step_rank", "linear_num_value_heads"};
  out.key_heads =
      fields.required_count({"ssm.group_count", "linear_num_key_heads"}, 1, load::kMostHeads);
  out.value_heads = fields.required_count(kValueHeads, 1, load::kMostHeads);
  out.key_dim = fields.required_count({"ssm.state_size", "linear_key_head_dim"}, 1, kMostDim);
  if (fields.gguf()) {
    constexpr Key kInner = {"ssm.inner_size", ""};
    const std::uint32_t inner = fields.required_count(kInner, 1, load::kLargestHiddenSize);
    out.value_dim = divided(fields, kInner, inner, out.value_heads, "heads of values");
  } else {
    out.value_dim = fields.required_count({"", "linear_value_head_dim"}, 1, kMostDim);
  }
  divided(fields, kValueHeads, out.value_heads, out.key_heads, "heads of keys");
  out.convolution = fields.required_count({"ssm.conv_kernel", "linear_conv_kernel_dim"}, 2,
                                          load::kMostConvolution);
  out.log_rates = !fields.gguf();
  return out;
}

std::vector<bool> read_delta_layers(Fields& fields, std::uint32_t layers) {
  if (const auto types = read_layer_types(fields, layers, "linear_attention",
                                          "linear_attention, full_attention")) {
    return *types;
  }
  std::vector<bool> out(layers);
  constexpr Key kListed = {"attention.recurrent_layers", ""};
  if (fields.gguf() && fields.is_array(kListed)) {
    out = fields.flags(kListed, layers);
    out.resize(layers);
    return out;
  }
  const std::uint32_t interval =
      fields.count({"full_attention_interval", "full_attention_interval"}, 1, load::kMostLayers)
          .value_or(kUsualInterval);
  for (std::uint32_t i = 0; i < layers; ++i) out[i] = (i + 1) % interval != 0;
  return out;
}

}  // namespace dovetail::families
