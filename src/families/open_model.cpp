#include "families/open_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "families/common.h"
#include "families/registry.h"
#include "load/container.h"
#include "load/declared_types.h"
#include "load/quote.h"
#include "load/tensor_binding.h"

namespace dovetail::families {
namespace {

using load::Container;
using load::ModelConfig;
using load::ModelSource;
using load::StoredTensors;

// Before the names of tensors that have no name here, so that none can pass for one that has.
constexpr std::string_view kForeign = "foreign/";

// As a config.json says; what is wrong with that is for those to say who read the configuration.
std::uint32_t layers_of(const nlohmann::json& text) {
  const auto found = text.find("num_hidden_layers");
  if (found == text.end() || !found->is_number_unsigned()) return 0;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(found->get<std::uint64_t>(), load::kMostLayers));
}

std::string name_of(std::string stored, const FoundFamily& found) {
  const Reader& reader = found.family->reader;
  const bool gguf = found.text == nullptr;
  if (found.wrapped) {
    auto name = text_name(stored);
    if (!name) return std::string(load::kSparePrefix) + stored;
    stored = *std::move(name);
  }
  if (!reader.base.empty() && stored.starts_with(reader.base)) stored.erase(0, reader.base.size());
  if (!gguf && reader.draft_name != nullptr)
    stored = reader.draft_name(std::move(stored), layers_of(*found.text));
  for (const std::string_view beginning : reader.spare) {
    if (stored.starts_with(beginning)) return std::string(load::kSparePrefix) + stored;
  }
  if (gguf) return rename(stored, reader.gguf_names).value_or(stored);
  // Embedders are stored without their heads, and so without what stands before the names of the
  // rest of a model that has one.
  for (const std::string& name : {stored, fmt::format("model.{}", stored)}) {
    if (auto known = rename(name, reader.hf_names)) return *std::move(known);
    if (auto known = rename(name, kCommonHfNames)) return *std::move(known);
  }
  return std::string(kForeign) + stored;
}

Result<StoredTensors> by_name(const Container& container, const FoundFamily& found, Owned& owned) {
  const Reader& reader = found.family->reader;
  StoredTensors out;
  for (const auto& [stored, tensor] : container.tensors) {
    if (out.emplace(name_of(stored, found), tensor).second) continue;
    return fail(ErrorKind::kInvalid, "{}: tensor {}: given twice; valid: once", tensor.file,
                load::quote(tensor.stored_name));
  }
  if (reader.adapt != nullptr) {
    if (auto status = reader.adapt(out, owned); !status) return fail(status.error());
  }
  return out;
}

Result<ModelConfig> read_config_of(const FoundFamily& found, const Container& container,
                                   const StoredTensors& tensors) {
  const bool gguf = std::holds_alternative<load::GgufFile>(container.configuration);
  const Family& family = *found.family;
  Fields fields(container, tensors, std::string(gguf ? family.architecture : family.model_type),
                found.text, found.wrapped ? "text_config." : "");
  ModelConfig config;
  config.family = family.name;
  family.reader.read(fields, config);
  if (found.headless) {
    config.has_logits = config.tied_embeddings = false;
    config.draft_layer.reset();
  }
  read_pooling(fields, config);
  if (container.pooling) config.pooling = *container.pooling;
  config.head.insert(config.head.end(), container.head.begin(), container.head.end());
  refuse_the_rest(fields);
  if (auto status = fields.status(); !status) return fail(status.error());
  if (auto status = check_config(config, container.name); !status) return fail(status.error());
  return config;
}

// What two descriptions of one model must have in common, in words; nothing where they do.
std::string_view difference(const ModelConfig& one, const ModelConfig& other) {
  if (one.hidden_size != other.hidden_size) return "width";
  if (one.vocab_size != other.vocab_size) return "vocabulary";
  if (one.layers != other.layers) return "layers";
  if (one.ropes != other.ropes) return "rotary embedding";
  if (one.hyper != other.hyper) return "hyper-connections";
  if (one.output_norm != other.output_norm) return "norms";
  return {};
}

// The layer that drafts, from a GGUF file that has it by itself: its tensors go to those of the
// model. What else the file has, embeddings and the model's head, is the model's once more.
Status add_draft_layer(const Container& drafts, const Container& model, const FoundFamily& found,
                       ModelConfig& config, StoredTensors& tensors, Owned& owned) {
  const auto family = find_family(drafts);
  if (!family) return fail(family.error());
  if (family->family != found.family) {
    return fail(ErrorKind::kInvalid, "{}: metadata 'general.architecture': {}; valid: {}, as in {}",
                drafts.name, load::quote(family->family->architecture),
                load::quote(found.family->architecture), model.name);
  }
  auto beside = by_name(drafts, *family, owned);
  if (!beside) return fail(beside.error());
  const std::string prefix = config.draft_prefix();
  for (auto& [name, tensor] : *beside) {
    // A sum of the layer's streams is called as the model's is.
    constexpr std::string_view kSum = "output_hc.";
    if (name.starts_with(prefix)) {
      tensors.insert_or_assign(name, std::move(tensor));
    } else if (name.starts_with(kSum)) {
      tensors.insert_or_assign(prefix + "nextn.hc_head." + name.substr(kSum.size()),
                               std::move(tensor));
    }
  }
  const auto said = read_config_of(*family, drafts, tensors);
  if (!said) return fail(said.error());
  if (const auto what = difference(*said, config); !what.empty()) {
    return fail(ErrorKind::kInvalid, "{}: other {} than {}; valid: the file of one model's drafts",
                drafts.name, what, model.name);
  }
  if (!said->draft_layer) {
    return fail(ErrorKind::kInvalid,
                "{}: no layer that drafts (nextn.*); valid: one behind the {} of {}", drafts.name,
                config.layers.size(), model.name);
  }
  config.draft_layers = said->draft_layers;
  config.draft_layer = said->draft_layer;
  return {};
}

std::uint64_t sum_of(std::span<const load::NamedBytes> files) {
  std::uint64_t sum = 0;
  for (const load::NamedBytes& file : files) sum += file.bytes.size();
  return sum;
}

std::uint64_t bytes_of(const load::ModelFiles& files) {
  if (const auto* shards = std::get_if<std::vector<load::NamedBytes>>(&files))
    return sum_of(*shards);
  const auto& folder = std::get<load::HuggingFaceFiles>(files);
  std::uint64_t sum = sum_of(folder.weights);
  for (const load::DenseFiles& dense : folder.dense) sum += dense.weights.bytes.size();
  return sum;
}

// Of a configuration without weights.
Result<std::unordered_map<std::string, load::TensorView>> described_tensors(
    const ModelConfig& config, const FoundFamily& found, const Container& container) {
  const auto& whole = *std::get<std::shared_ptr<const nlohmann::json>>(container.configuration);
  const load::DeclaredTypes types(*found.text, whole, container.quantization);
  return load::describe_tensors(
      config, [&](const std::string& name, std::size_t rows, std::size_t columns) {
        return types.of(name, rows, columns);
      });
}

Result<ModelSource> read_model_of(const load::ModelFiles& files,
                                  std::span<const load::NamedBytes> draft_files) {
  auto container = load::read_container(files);
  if (!container) return fail(container.error());
  const auto family = find_family(*container);
  if (!family) return fail(family.error());
  ModelSource source;
  source.file_bytes = bytes_of(files);
  auto tensors = by_name(*container, *family, source.mappings);
  if (!tensors) return fail(tensors.error());
  auto config = read_config_of(*family, *container, *tensors);
  if (!config) return fail(config.error());
  // Tensors name the file that they are from.
  const load::ModelFiles beside = std::vector(draft_files.begin(), draft_files.end());
  std::optional<Container> drafts;
  if (!draft_files.empty() && !config->draft_layer) {
    auto read = load::read_container(beside);
    if (!read) return fail(read.error());
    drafts = *std::move(read);
    source.file_bytes += sum_of(draft_files);
    if (auto status =
            add_draft_layer(*drafts, *container, *family, *config, *tensors, source.mappings);
        !status) {
      return fail(status.error());
    }
  }
  source.format = container->format;
  source.config = *std::move(config);
  auto bound = container->described ? described_tensors(source.config, *family, *container)
                                    : load::bind_tensors(source.config, *tensors, container->place);
  if (!bound) return fail(bound.error());
  source.has_weights = !container->described;
  source.tensors = *std::move(bound);
  if (auto status = load::read_extras(files, *container, source); !status) {
    return fail(status.error());
  }
  return source;
}

Result<std::shared_ptr<const ModelSource>> open_files(const std::filesystem::path& path,
                                                      Result<load::MappedFiles> mapped) {
  if (!mapped) return fail(mapped.error());
  auto source = read_model_of(mapped->files, mapped->drafts);
  if (!source) return fail(source.error());
  source->path = path;
  source->name = std::move(mapped->model_name);
  for (auto& mapping : mapped->weights) source->mappings.push_back(std::move(mapping));
  return std::make_shared<const ModelSource>(*std::move(source));
}

// What is thrown by this comes from the standard library: memory, or a path that cannot be had.
template <class Function>
Result<std::shared_ptr<const ModelSource>> guarded(const std::filesystem::path& path,
                                                   Function&& function) {
  try {
    return function();
  } catch (const std::exception& problem) {
    return fail(ErrorKind::kInternal, "{}: {}", path.string(), problem.what());
  }
}

}  // namespace

Result<ModelConfig> read_config(const Container& container) {
  const auto family = find_family(container);
  if (!family) return fail(family.error());
  Owned owned;
  const auto tensors = by_name(container, *family, owned);
  if (!tensors) return fail(tensors.error());
  return read_config_of(*family, container, *tensors);
}

Result<ModelSource> read_model(const load::ModelFiles& files,
                               std::span<const load::NamedBytes> drafts) {
  return read_model_of(files, drafts);
}

Result<std::shared_ptr<const ModelSource>> open_model(const std::filesystem::path& path) {
  return guarded(path, [&] { return open_files(path, load::map_model(path)); });
}

Result<std::shared_ptr<const ModelSource>> describe_model(const std::filesystem::path& path) {
  return guarded(path, [&] { return open_files(path, load::map_description(path)); });
}

}  // namespace dovetail::families
