#include "families/mamba.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>

#include "families/common.h"
#include "load/json_fields.h"
#include "load/limits.h"

namespace dovetail::families {
namespace {

using nlohmann::json;

constexpr Key kHeadCount = {"ssm.time_step_rank", "mamba_n_heads"};
constexpr Key kHeadSize = {"", "mamba_d_head"};
constexpr Key kInnerSize = {"ssm.inner_size", ""};

// A size that a config.json may leave out where the family has a usual one.
std::uint32_t size_of(Fields& fields, Key key, std::uint32_t high, std::uint32_t usual) {
  if (fields.gguf() || usual == 0) return fields.required_count(key, 1, high);
  return fields.count(key, 1, high).value_or(usual);
}

// Of one head.
std::uint32_t read_head_dim(Fields& fields, std::uint32_t heads, std::uint32_t hidden,
                            const MambaSizes& usual) {
  if (heads == 0) return 0;
  if (!fields.gguf() && usual.head_dim != 0)
    return size_of(fields, kHeadSize, load::kLargestHeadDim, usual.head_dim);
  constexpr Key kExpand = {"", "mamba_expand"};
  std::uint64_t inner = usual.inner;
  std::string what = fmt::format("the {} of all heads", inner);
  if (fields.gguf()) {
    inner = fields.required_count(kInnerSize, 1, load::kLargestIntermediateSize);
    what = fmt::format("{} {}", kInnerSize.gguf, inner);
  } else if (inner == 0) {
    const std::uint32_t expand = fields.count(kExpand, 1, 64).value_or(2);
    inner = std::uint64_t{expand} * hidden;
    what = fmt::format("{} times hidden_size {}", expand, hidden);
  }
  fields.ask(kExpand);
  if (inner % heads != 0) {
    fields.reject(kHeadCount, fmt::format("{}", heads), "a divisor of " + what,
                  ErrorKind::kInvalid);
  }
  const auto shared = static_cast<std::uint32_t>(inner / heads);
  const json* given = fields.member("mamba_d_head");
  if (given == nullptr || *given == "auto") return shared;
  const std::uint32_t head_dim = fields.required_count(kHeadSize, 1, load::kLargestHeadDim);
  if (head_dim != shared) {
    fields.reject(kHeadSize, fmt::format("{}", head_dim),
                  fmt::format("{}, since {} heads are {}", shared, heads, what),
                  ErrorKind::kInvalid);
  }
  return head_dim;
}

// Python's Infinity, which is no number of JSON: as text, or as transformers 5 writes it.
bool is_infinity(const json& value) {
  if (value.is_object()) return value.size() == 1 && value.value("__float__", "") == "Infinity";
  return value == "Infinity";
}

// Steps within other bounds than these are nowhere said to be so for generated tokens, too.
void check_steps(Fields& fields) {
  constexpr Key kSteps = {"", "time_step_limit"};
  const json* limit = fields.member("time_step_limit");
  if (limit == nullptr) return;
  const bool unbounded = limit->is_array() && limit->size() == 2 && (*limit)[0].is_number() &&
                         (*limit)[0].get<double>() <= 0.0 && is_infinity((*limit)[1]);
  if (!unbounded) fields.reject(kSteps, limit->dump(), "[0.0, Infinity]");
}

}  // namespace

load::MambaConfig read_mamba(Fields& fields, const load::NormConfig& norm, std::uint32_t hidden,
                             const MambaSizes& usual, std::uint32_t first) {
  load::MambaConfig out;
  out.norm = norm;
  out.heads = size_of(fields, kHeadCount, load::kMostHeads, usual.heads);
  out.head_dim = read_head_dim(fields, out.heads, hidden, usual);
  constexpr Key kGroups = {"ssm.group_count", "mamba_n_groups"};
  out.groups = size_of(fields, kGroups, load::kMostHeads, usual.groups);
  if (out.groups != 0 && out.heads % out.groups != 0) {
    fields.reject(kGroups, fmt::format("{}", out.groups),
                  fmt::format("a divisor of the {} heads", out.heads), ErrorKind::kInvalid);
  }
  out.state_dim =
      size_of(fields, {"ssm.state_size", "mamba_d_state"}, load::kLargestState, usual.state_dim);
  constexpr Key kPositions = {"ssm.conv_kernel", "mamba_d_conv"};
  out.convolution = fields.gguf() ? fields.required_count(kPositions, 2, load::kMostConvolution)
                                  : fields.count(kPositions, 2, load::kMostConvolution).value_or(4);
  out.convolution_bias = fields.gguf()
                             ? fields.has_tensor(fmt::format("blk.{}.ssm_conv1d.bias", first))
                             : fields.flag({"", "mamba_conv_bias"}).value_or(true);
  must_be(fields, "mamba_proj_bias", false);
  check_steps(fields);
  out.log_rates = !fields.gguf();
  return out;
}

Status flatten_mamba(load::StoredTensors& tensors, Owned& /*owned*/) {
  for (auto& [name, tensor] : tensors) {
    const bool column = name.ends_with(".ssm_a") || name.ends_with(".ssm_d");
    if (tensor.shape.size() != 2) continue;
    if (column ? tensor.shape[1] == 1 : name.ends_with(".ssm_norm.weight"))
      tensor.shape = {tensor.shape[0] * tensor.shape[1]};
  }
  return {};
}

}  // namespace dovetail::families
