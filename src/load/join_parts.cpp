#include "load/join_parts.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "load/parts_reader.h"
#include "load/stored_formats.h"

namespace dovetail::load {
namespace {

using Method = Quantization::Method;

// Which tensors are the codes of a weight, and what reads its parts. The first row that fits holds.
struct Format {
  Method method;
  std::string_view ending;       // of the tensor's name
  std::string_view stored_type;  // empty: any
  StoredParts (*read)(PartsReader& reader, const Found& codes);
};
constexpr Format kStoredAs[] = {
    {Method::kFp8, ".weight", "F8_E4M3", byte_codes},
    {Method::kFp8, ".weight", "I8", packed_floats},
    // Those of all experts of a layer in one, as transformers stores them.
    {Method::kFp8, "", "F8_E4M3", expert_codes},
    {Method::kCompressedTensors, ".weight", "F8_E4M3", byte_codes},
    {Method::kCompressedTensors, ".weight", "I8", byte_codes},
    {Method::kCompressedTensors, ".weight_packed", "U8", packed_floats},
    {Method::kCompressedTensors, ".weight_packed", "", packed_codes},
    {Method::kModelOpt, ".weight", "U8", nvfp4_codes},
    {Method::kModelOpt, ".weight", "F8_E4M3", byte_codes},
    {Method::kAwq, ".qweight", "", awq_codes},
    {Method::kGptq, ".qweight", "", gptq_codes},
    {Method::kMxfp4, "_blocks", "", mxfp4_blocks},
};

// The format of the weight whose codes this tensor is; null where it is none's.
const Format* format_of(Method method, const SafetensorsTensor& tensor) {
  const auto* found =
      std::find_if(std::begin(kStoredAs), std::end(kStoredAs), [&](const Format& format) {
        return format.method == method && std::string_view(tensor.name).ends_with(format.ending) &&
               (format.stored_type.empty() || format.stored_type == tensor.stored_type);
      });
  return found == std::end(kStoredAs) ? nullptr : found;
}

// Where the configuration asks for a cache in 8 bits: how far its keys and values reach. The
// cache here is of the type that an option names and has scales of its own.
bool is_of_cache(std::string_view name) {
  constexpr std::string_view kEndings[] = {
      ".self_attn.k_scale",   ".self_attn.v_scale", ".self_attn.kv_scale", ".k_proj.output_scale",
      ".v_proj.output_scale", ".k_proj.k_scale",    ".v_proj.v_scale"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

Result<std::vector<NamedTensor>> join_parts(const Quantization& quantization,
                                            std::span<const std::vector<SafetensorsTensor>> shards,
                                            std::span<const std::string_view> files) {
  PartsReader reader(quantization, shards, files);
  std::unordered_set<const SafetensorsTensor*> spare;
  std::vector<NamedTensor> out;
  const auto for_each = [&](auto&& function) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      for (const SafetensorsTensor& tensor : shards[i]) function(Found{&tensor, files[i]});
    }
  };
  for_each([&](const Found& codes) {
    const SafetensorsTensor& tensor = *codes.tensor;
    const Format* format = reader.failed() ? nullptr : format_of(quantization.method, tensor);
    if (format == nullptr) return;
    reader.begin(codes, format->ending);
    const StoredParts parts = format->read(reader, codes);
    if (reader.failed()) return;
    // Some quantisers give every layer a bias, of zeros where the model has none.
    const Found bias = reader.peek(".bias");
    if (bias.tensor != nullptr && all_zero(bias.tensor->data)) spare.insert(bias.tensor);
    std::vector<std::uint64_t> shape = reader.outer;
    shape.insert(shape.end(), {parts.rows / reader.matrices(), parts.columns});
    std::string name = reader.stem();
    // Parameters of modules that hold several have no ending.
    if (format->ending.starts_with('.')) name += ".weight";
    out.push_back({std::move(name),
                   {codes.file,
                    tensor.name,
                    tensor.stored_type,
                    parts.type,
                    std::move(shape),
                    {},
                    std::make_shared<const StoredParts>(parts),
                    false,
                    reader.factor}});
  });
  if (reader.failed()) return fail(*reader.error());
  for_each([&](const Found& found) {
    const SafetensorsTensor& tensor = *found.tensor;
    if (reader.is_used(tensor)) return;
    const bool changes_nothing =
        spare.contains(&tensor) || (quantization.cache_scales && is_of_cache(tensor.name));
    out.push_back({tensor.name,
                   {found.file, tensor.name, tensor.stored_type, tensor.type, tensor.shape,
                    tensor.data, nullptr, changes_nothing}});
  });
  return out;
}

}  // namespace dovetail::load
