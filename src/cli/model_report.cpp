#include "cli/model_report.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "engine/options.h"
#include "kernels/kernels.h"

namespace dovetail::cli {
namespace {

namespace fs = std::filesystem;

// A split GGUF file's name up to its part's number, "" for others: NAME-00001-of-00003.gguf.
std::string split_stem(const std::string& name) {
  constexpr std::string_view kTail = "-00001-of-00001.gguf";
  if (name.size() <= kTail.size()) return {};
  const std::string tail = name.substr(name.size() - kTail.size());
  for (std::size_t i = 0; i < tail.size(); ++i) {
    const bool digit = std::isdigit(static_cast<unsigned char>(kTail[i])) != 0;
    const bool same =
        digit ? std::isdigit(static_cast<unsigned char>(tail[i])) != 0 : tail[i] == kTail[i];
    if (!same) return {};
  }
  return name.substr(0, name.size() - kTail.size());
}

std::uint64_t disk_bytes(const fs::path& path) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  const std::string stem = folder ? std::string() : split_stem(path.filename().string());
  if (!folder && stem.empty()) {
    const std::uintmax_t size = fs::file_size(path, error);
    return error ? 0 : size;
  }
  std::uint64_t sum = 0;
  fs::directory_iterator entries(folder ? path : fs::absolute(path, error).parent_path(), error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const fs::path& file = entries->path();
    const bool part =
        folder ? file.extension() == ".safetensors" : split_stem(file.filename().string()) == stem;
    std::error_code unreadable;
    const std::uintmax_t size = part ? fs::file_size(file, unreadable) : 0;
    if (!unreadable) sum += size;
  }
  return sum;
}

std::string tokenizer_kind(const load::ModelSource& source) {
  if (const auto* gguf = std::get_if<load::GgufTokenizer>(&source.tokenizer)) {
    const std::string pre = gguf->pre.empty() ? "" : " (" + gguf->pre + ")";
    return "GGUF " + gguf->model + pre;
  }
  if (std::holds_alternative<load::HuggingFaceTokenizer>(source.tokenizer))
    return "Hugging Face tokenizer.json";
  return "none";
}

// What the forward pass keeps per token of a step: residual, normed input, query, key, value,
// attention's output, two halves of the MLP, the widest row as its products take it; and logits.
// With experts there is an MLP for each that a token uses, what it gives, and the router's logits.
std::uint64_t scratch_bytes(const load::ModelConfig& config, const EngineOptions& options) {
  const std::uint64_t hidden = config.hidden_size;
  std::uint64_t query = 0, kv = 0, mlp = 0, widest = hidden;
  for (const load::LayerConfig& layer : config.layers) {
    if (const load::AttentionConfig* attention = layer.attention()) {
      query = std::max(query, std::uint64_t{attention->heads} * attention->head_dim);
      kv = std::max(kv, std::uint64_t{attention->kv_heads} * attention->head_dim);
    }
    if (const load::MlpConfig* dense = layer.dense()) {
      mlp = std::max(mlp, std::uint64_t{2} * dense->size);
      widest = std::max(widest, std::uint64_t{dense->size});
    } else {
      const load::ExpertsConfig& experts = *layer.experts();
      const std::uint64_t inner = experts.size;
      mlp = std::max(mlp,
                     experts.count + experts.used * (2 * inner + hidden + std::max(hidden, inner)));
    }
  }
  widest = std::max(widest, query);
  const std::uint64_t floats = 2 * hidden + 2 * query + 2 * kv + mlp + widest;
  return 4 * (floats * options.max_num_batched_tokens +
              std::uint64_t{config.vocab_size} * options.max_num_seqs);
}

}  // namespace

std::vector<std::string> tensor_names(const load::ModelSource& source) {
  // Numbers sort by their length first, then by their digits.
  const auto key = [](const std::string& name) {
    std::string sortable;
    for (std::size_t i = 0; i < name.size();) {
      std::size_t end = i;
      while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
      if (end > i) {
        sortable += static_cast<char>(1 + std::min<std::size_t>(end - i, 20));
        sortable.append(name, i, end - i);
        i = end;
      } else {
        sortable += name[i++];
      }
    }
    return sortable;
  };
  std::vector<std::pair<std::string, std::string>> keyed;
  for (const auto& [name, tensor] : source.tensors) keyed.emplace_back(key(name), name);
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::string> names;
  for (auto& [unused, name] : keyed) names.push_back(std::move(name));
  return names;
}

Result<ModelReport> report_model(const load::ModelSource& source, const EngineOptions& options) {
  const Result<engine::ResolvedOptions> resolved = engine::resolve(options, source);
  if (!resolved) return fail(resolved.error());
  ModelReport report;
  report.disk_bytes = disk_bytes(source.path);
  report.tokenizer = tokenizer_kind(source);
  report.chat_template = source.chat_template.has_value();
  MemoryNeed& memory = report.memory;
  for (const auto& [name, tensor] : source.tensors) {
    const std::uint64_t elements = std::uint64_t{tensor.rows} * tensor.columns;
    TypeShare& share = report.types[std::string(kernels::info(tensor.type).name)];
    ++share.tensors;
    share.parameters += elements;
    share.bytes += tensor.bytes();
    report.parameters += elements;
    memory.weights += tensor.bytes();
  }
  memory.options = resolved->options;
  const std::uint64_t block = resolved->cache_shape.block_bytes();
  const std::uint64_t blocks = memory.options.kv_blocks;
  memory.cache_token = block / kernels::kBlockSize;
  memory.cache_sequence = resolved->cache_shape.sequence_bytes(memory.options.max_context);
  memory.cache = blocks * block;
  memory.full_sequences = memory.cache / std::max<std::uint64_t>(memory.cache_sequence, 1);
  memory.states = (std::uint64_t{memory.options.max_num_seqs} + memory.options.saved_states) *
                  resolved->cache_shape.state_floats() * sizeof(float);
  memory.scratch = scratch_bytes(source.config, memory.options);
  return report;
}

}  // namespace dovetail::cli
