#include "load/declared_types.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace dovetail::load {
namespace {

using kernels::DataType;
using nlohmann::json;
using Method = Quantization::Method;

struct PlainName {
  std::string_view name;  // of torch_dtype
  DataType type;
};
constexpr PlainName kPlainNames[] = {
    {"bfloat16", DataType::kBF16}, {"float16", DataType::kF16}, {"float32", DataType::kF32}};

// What a method makes of products, and whether of experts alone.
struct MethodType {
  Method method;
  std::uint32_t bits;  // of compressed-tensors, GPTQ, ModelOpt
  bool floats;         // likewise
  DataType type;
  bool experts_alone = false;
};
constexpr MethodType kMethodTypes[] = {
    {Method::kFp8, 0, false, DataType::kFP8_E4M3},
    {Method::kAwq, 0, false, DataType::kINT4_128},
    {Method::kGptq, 4, false, DataType::kINT4_128},
    {Method::kGptq, 8, false, DataType::kINT8},
    {Method::kMxfp4, 0, false, DataType::kMXFP4, true},
    {Method::kCompressedTensors, 4, false, DataType::kINT4_128},
    {Method::kCompressedTensors, 8, false, DataType::kINT8},
    {Method::kCompressedTensors, 4, true, DataType::kMXFP4},
    {Method::kCompressedTensors, 8, true, DataType::kFP8_E4M3},
    {Method::kModelOpt, 4, true, DataType::kNVFP4},
    {Method::kModelOpt, 8, true, DataType::kFP8_E4M3},
};

// Beginnings of the names, in a layer, of matrices that no quantiser touches: they are small, and
// much depends on them.
constexpr std::string_view kLeftAlone[] = {
    "ffn_gate_inp",   "ffn_token_experts", "hc_",          "compress_", "indexer.proj",
    "indexer.comp",   "ssm_conv1d",        "ssm_alpha",    "ssm_beta",  "ssm_ba",
    "shortconv.conv", "nextn.eh_proj",     "nextn.hc_head"};

std::optional<std::string> text_in(const json& object, std::string_view key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

// The part of a name behind its layer's; empty outside of layers.
std::string_view in_layer(std::string_view name) {
  constexpr std::string_view kLayer = "blk.";
  if (!name.starts_with(kLayer)) return {};
  name.remove_prefix(kLayer.size());
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
}

bool is_of_experts(std::string_view rest) { return rest.ends_with("_exps.weight"); }

}  // namespace

DeclaredTypes::DeclaredTypes(const json& text, const json& whole,
                             const Quantization& quantization) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    for (const json* object : {&whole, &text}) {
      const auto name = text_in(*object, key);
      const auto* known =
          std::find_if(std::begin(kPlainNames), std::end(kPlainNames),
                       [&](const PlainName& one) { return name && one.name == *name; });
      if (known != std::end(kPlainNames)) plain_ = known->type;
    }
  }
  products_ = experts_ = plain_;
  for (const MethodType& row : kMethodTypes) {
    if (row.method != quantization.method) continue;
    if (row.bits != 0 &&
        (row.bits != quantization.weight_bits || row.floats != quantization.weight_floats))
      continue;
    experts_ = row.type;
    if (row.type == DataType::kINT4_128 && quantization.group_size % 128 != 0)
      experts_ = DataType::kINT4_32;
    if (row.type == DataType::kMXFP4 && quantization.group_size == 16) experts_ = DataType::kNVFP4;
    if (!row.experts_alone) products_ = experts_;
  }
  // DeepSeek-V4's.
  if (quantization.method == Method::kFp8 && text_in(text, "expert_dtype") == "fp4")
    experts_ = DataType::kMXFP4;
}

DataType DeclaredTypes::of(std::string_view name, std::size_t rows, std::size_t columns) const {
  const std::string_view rest = in_layer(name);
  const bool left =
      rest.empty() || rows < 2 || rest.ends_with(".bias") ||
      std::any_of(std::begin(kLeftAlone), std::end(kLeftAlone),
                  [&](std::string_view beginning) { return rest.starts_with(beginning); });
  if (left) return plain_;
  const DataType type = is_of_experts(rest) ? experts_ : products_;
  return columns % kernels::info(type).elements_per_block == 0 ? type : plain_;
}

}  // namespace dovetail::load
