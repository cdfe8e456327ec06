#include "serve/model_facts.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

#include "kernels/data_type.h"
#include "load/model_source.h"

namespace dovetail::serve {
namespace {

constexpr std::string_view kSampled = "output_norm.weight";  // a vector that nearly all models have
constexpr std::size_t kSampledBytes = 4096;

std::uint64_t elements(const load::TensorView& tensor) {
  return std::uint64_t{tensor.rows} * tensor.columns;
}

// The type that most of the parameters have.
std::string most_common_type(const load::ModelSource& source) {
  std::map<kernels::DataType, std::uint64_t> counts;
  for (const auto& [name, tensor] : source.tensors) counts[tensor.type] += elements(tensor);
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? std::string() : std::string(kernels::info(most->first).name);
}

// When the file, or a folder's configuration, was written.
std::int64_t modified_at(const std::filesystem::path& path) {
  std::error_code unknown;
  const auto file = std::filesystem::is_directory(path, unknown) ? path / "config.json" : path;
  const auto time = std::filesystem::last_write_time(file, unknown);
  if (unknown) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::file_clock::to_sys(time).time_since_epoch())
      .count();
}

void read_layers(const load::ModelConfig& config, ModelFacts& facts) {
  facts.layers = static_cast<std::uint32_t>(config.layers.size());
  for (const load::LayerConfig& layer : config.layers) {
    if (facts.heads == 0) {
      if (const load::AttentionConfig* attention = layer.attention()) {
        facts.heads = attention->heads;
        facts.kv_heads = attention->kv_heads;
      } else if (const load::LatentConfig* latent = layer.latent()) {
        facts.heads = latent->heads;
      }
    }
    if (facts.feed_forward == 0 && layer.dense() != nullptr)
      facts.feed_forward = layer.dense()->size;
  }
}

std::string_view sample_of(const load::ModelSource& source) {
  const auto at = source.tensors.find(std::string(kSampled));
  if (at == source.tensors.end()) return {};
  const auto data = at->second.data.first(std::min(at->second.data.size(), kSampledBytes));
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

}  // namespace

ModelFacts facts_of(const load::ModelSource& source) {
  const load::ModelConfig& config = source.config;
  ModelFacts facts;
  facts.format = source.format.starts_with("GGUF") ? "gguf" : "safetensors";
  facts.family = config.family;
  facts.quantization = source.quantization.empty() ? most_common_type(source) : source.quantization;
  for (const auto& [name, tensor] : source.tensors) facts.parameters += elements(tensor);
  facts.file_bytes = source.file_bytes;
  facts.modified = modified_at(source.path);
  facts.hidden_size = config.hidden_size;
  read_layers(config, facts);
  const bool ranks = config.score != load::Score::kNone;
  facts.generates = config.has_logits && !ranks;
  facts.embeds = !ranks && (config.pooling != load::Pooling::kNone || !config.has_logits);
  facts.digest = model_digest(source.name, facts, sample_of(source));
  return facts;
}

std::string model_digest(std::string_view name, const ModelFacts& facts,
                         std::string_view some_weights) {
  std::string text = fmt::format("{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n", name, facts.format,
                                 facts.family, facts.quantization, facts.parameters,
                                 facts.file_bytes, facts.layers, facts.hidden_size);
  text += some_weights;
  std::string digest;
  for (const XXH64_hash_t half : {XXH64_hash_t{0}, XXH64_hash_t{1}}) {
    const XXH128_hash_t hash = XXH3_128bits_withSeed(text.data(), text.size(), half);
    digest += fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }
  return digest;
}

std::string parameter_size(std::uint64_t parameters) {
  struct Unit {
    double size;
    int digits;  // where it is no whole number
    char letter;
  };
  constexpr Unit kUnits[] = {{1e9, 1, 'B'}, {1e6, 2, 'M'}, {1e3, 0, 'K'}};
  const auto count = static_cast<double>(parameters);
  for (const auto& [size, digits, letter] : kUnits) {
    if (count < size) continue;
    const double number = count / size;
    return fmt::format("{:.{}f}{}", number, number == std::floor(number) ? 0 : digits, letter);
  }
  return std::to_string(parameters);
}

}  // namespace dovetail::serve
