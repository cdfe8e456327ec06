#include <fmt/core.h>

#include "cli/model_report.h"
#include "cli/values.h"

namespace dovetail::cli {
namespace {

// "1.23 million (1234567)"
std::string show_count(std::uint64_t count) {
  const auto value = static_cast<double>(count);
  if (count >= 1000000000) return fmt::format("{:.2f} billion ({})", value / 1e9, count);
  if (count >= 1000000) return fmt::format("{:.2f} million ({})", value / 1e6, count);
  return fmt::format("{}", count);
}

std::string row(std::string_view name, std::string_view value) {
  return fmt::format("{:<16}{}\n", name, value);
}

// What a sequence's hidden rows become; empty where the files do not say.
std::string pooled_text(const load::ModelConfig& config) {
  constexpr const char* kPoolings[] = {"the last hidden row", "the mean of the hidden rows",
                                       "the first hidden row", "the last hidden row"};
  if (config.pooling == load::Pooling::kNone && config.has_logits) return {};
  std::string text = kPoolings[static_cast<int>(config.pooling)];
  for (const load::HeadConfig& part : config.head)
    text += fmt::format(", a product of {}", part.size);
  return text;
}

std::string model_part(const load::ModelSource& source, const ModelReport& report) {
  const load::ModelConfig& config = source.config;
  std::string text = row("model", source.name);
  text += row("file", source.path.string());
  text += row("format", fmt::format("{}, {}", source.format, show_bytes(report.disk_bytes)));
  text += row("family", config.family);
  text += row("parameters", show_count(report.parameters));
  text += row("layers", fmt::format("{}, {} wide", config.layers.size(), config.hidden_size));
  const std::vector<LayerKind> kinds = layer_kinds(config);
  for (const LayerKind& kind : kinds)
    text += row(kinds.size() == 1 ? "  each" : fmt::format("  {} of", kind.layers), kind.text);
  text += row("context", std::to_string(config.max_context));
  text += row("vocabulary", fmt::format("{}{}", config.vocab_size,
                                        config.tied_embeddings ? ", embeddings tied" : ""));
  if (const std::string pooled = pooled_text(config); !pooled.empty())
    text += row(config.score == load::Score::kNone ? "embedding" : "score", pooled);
  text += row("tokenizer", report.tokenizer);
  text += row("chat template", report.chat_template ? "yes" : "no");
  return text;
}

std::string memory_part(const MemoryNeed& need) {
  const EngineOptions& options = need.options;
  std::string text = fmt::format("\nmemory for {} sequences of {} positions\n",
                                 options.max_num_seqs, options.max_context);
  text += row("  weights", show_bytes(need.weights));
  text += row("  cache", fmt::format("{} ({}): {} blocks of 16 positions", show_bytes(need.cache),
                                     options.cache_type, options.kv_blocks));
  text += row("", fmt::format("{} per position, {} per full sequence; {} full sequences fit",
                              show_bytes(need.cache_token), show_bytes(need.cache_sequence),
                              need.full_sequences));
  if (need.states > 0)
    text += row("  states", fmt::format("{}: {} sequences, {} saved", show_bytes(need.states),
                                        options.max_num_seqs, options.saved_states));
  text += row("  scratch", fmt::format("about {} ({} tokens in a step)", show_bytes(need.scratch),
                                       options.max_num_batched_tokens));
  text += row("  in all",
              "about " + show_bytes(need.weights + need.cache + need.states + need.scratch));
  return text;
}

}  // namespace

std::string report_text(const load::ModelSource& source, const ModelReport& report, bool tensors) {
  std::string text = model_part(source, report);
  text += "\ntensors\n";
  for (const auto& [name, share] : report.types) {
    text += row("  " + name, fmt::format("{:>5}, {} parameters, {}", share.tensors,
                                         show_count(share.parameters), show_bytes(share.bytes)));
  }
  text += memory_part(report.memory);
  if (!tensors) return text;
  text += '\n';
  for (const std::string& name : tensor_names(source)) {
    const load::TensorView& tensor = source.tensors.at(name);
    text += fmt::format("{:<32} {:<5} {:>7} x {:<7} {}\n", name, kernels::info(tensor.type).name,
                        tensor.rows, tensor.columns, show_bytes(tensor.bytes()));
  }
  return text;
}

Json report_json(const load::ModelSource& source, const ModelReport& report, bool tensors) {
  const load::ModelConfig& config = source.config;
  const MemoryNeed& need = report.memory;
  Json json = {{"name", source.name},
               {"path", source.path.string()},
               {"format", source.format},
               {"disk_bytes", report.disk_bytes},
               {"family", config.family},
               {"parameters", report.parameters},
               {"layers", config.layers.size()},
               {"hidden_size", config.hidden_size},
               {"max_context", config.max_context},
               {"vocab_size", config.vocab_size},
               {"tied_embeddings", config.tied_embeddings},
               {"tokenizer", report.tokenizer},
               {"chat_template", report.chat_template}};
  for (LayerKind& kind : layer_kinds(config)) json["layer_kinds"].push_back(std::move(kind.json));
  for (const auto& [name, share] : report.types) {
    json["types"][name] = {
        {"tensors", share.tensors}, {"parameters", share.parameters}, {"bytes", share.bytes}};
  }
  json["memory"] = {{"max_num_seqs", need.options.max_num_seqs},
                    {"max_model_len", need.options.max_context},
                    {"max_num_batched_tokens", need.options.max_num_batched_tokens},
                    {"kv_blocks", need.options.kv_blocks},
                    {"kv_cache_dtype", need.options.cache_type},
                    {"weights_bytes", need.weights},
                    {"cache_bytes_per_token", need.cache_token},
                    {"cache_bytes_per_sequence", need.cache_sequence},
                    {"cache_bytes", need.cache},
                    {"full_sequences", need.full_sequences},
                    {"scratch_bytes_estimate", need.scratch}};
  if (!tensors) return json;
  for (const std::string& name : tensor_names(source)) {
    const load::TensorView& tensor = source.tensors.at(name);
    json["tensors"].push_back({{"name", name},
                               {"type", kernels::info(tensor.type).name},
                               {"rows", tensor.rows},
                               {"columns", tensor.columns},
                               {"bytes", tensor.bytes()}});
  }
  return json;
}

}  // namespace dovetail::cli
