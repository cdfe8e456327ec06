#include "cli/model_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <span>
#include <utility>

#include "cli/values.h"
#include "engine/memory.h"
#include "engine/option_table.h"
#include "engine/options.h"
#include "engine/packing.h"
#include "kernels/kernels.h"
#include "text/built_in_templates.h"

namespace dovetail::cli {

namespace {

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
    } else if (const load::LatentConfig* latent = layer.latent()) {
      query = std::max(query, std::uint64_t{latent->heads} * latent->head_dim());
      const std::uint64_t index =
          std::uint64_t{latent->index_heads} * (latent->index_dim + 1) + latent->index_dim;
      kv = std::max<std::uint64_t>(kv, latent->query_rank + latent->cached_dim() + index);
      // Rows that choose have queries for the latents, and sums of these, prompts' among them.
      if (latent->index_heads > 0) {
        query = std::max(
            query, std::uint64_t{latent->heads} * (latent->head_dim() + latent->cached_dim()));
      }
    } else if (const load::CompressedConfig* mixer = layer.compressed()) {
      query = std::max(query, std::uint64_t{mixer->heads} * mixer->head_dim);
      const std::uint64_t entries = std::uint64_t{3} * mixer->halves() * mixer->entry_dim();
      kv = std::max<std::uint64_t>(kv, mixer->query_rank + mixer->head_dim + entries);
    }
    if (const load::MambaConfig* mamba = layer.mamba())
      query = std::max<std::uint64_t>(query, mamba->input_size());
    if (const load::MlpConfig* dense = layer.dense()) {
      mlp = std::max(mlp, std::uint64_t{2} * dense->size);
      widest = std::max(widest, std::uint64_t{dense->size});
    } else if (const load::ExpertsConfig* experts = layer.experts()) {
      const std::uint64_t inner = experts->size;
      mlp = std::max(
          mlp, experts->count + experts->used * (2 * inner + hidden + std::max(hidden, inner)));
      if (experts->apart) mlp += hidden + std::uint64_t{2} * experts->shared_size;
    }
  }
  widest = std::max(widest, query);
  const std::uint64_t floats = (1 + config.hyper.streams) * hidden + 2 * query + 2 * kv + mlp +
                               widest + config.layers.size() * config.layer_inputs.size;
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
  if (!resolved) return fail(engine::by_option_name(resolved.error()));
  ModelReport report;
  report.tokenizer = tokenizer_kind(source);
  report.chat_template = source.chat_template.has_value();
  if (const auto* row = text::built_in_template_of(source.config.family))
    report.built_in_template = row->name;
  MemoryNeed& memory = report.memory;
  for (const auto& [name, tensor] : source.tensors) {
    const std::uint64_t elements = std::uint64_t{tensor.rows} * tensor.columns;
    TypeShare& share = report.types[std::string(kernels::info(tensor.type).name)];
    ++share.tensors;
    share.parameters += elements;
    share.bytes += tensor.bytes();
    report.parameters += elements;
  }
  // Without weights there is nothing that this machine's memory would have to hold.
  engine::Packing packing =
      engine::plan_packing(source, *resolved, engine::expected_cache(*resolved),
                           source.has_weights ? engine::available_memory() : std::nullopt);
  const model::HeldBytes held = model::held_bytes(packing.bytes, packing.types);
  memory.weights_own = held.own;
  memory.weights_mapped = held.mapped + packing.bytes.looked_up;
  memory.notice = std::move(packing.notice);
  for (const model::TypeBytes& type : packing.bytes.types) {
    if (packing.types.has(type.type))
      report.types[std::string(kernels::info(type.type).name)].packed = type.packed;
  }
  memory.options = resolved->options;
  const std::uint64_t block = resolved->cache_shape.block_bytes();
  const std::uint64_t blocks = memory.options.kv_blocks;
  memory.cache_token = block / kernels::kBlockSize;
  const std::span<const std::uint32_t> windows = resolved->cache_shape.windows();
  memory.cache_kept = static_cast<std::uint64_t>(std::count(windows.begin(), windows.end(), 0U)) *
                      resolved->cache_shape.unit_bytes() / kernels::kBlockSize;
  memory.cache_sequence = resolved->cache_shape.sequence_bytes(memory.options.max_context);
  for (const std::uint32_t window : windows) {
    auto groups = std::find_if(memory.groups.begin(), memory.groups.end(),
                               [&](const CacheGroups& other) { return other.window == window; });
    if (groups == memory.groups.end()) groups = memory.groups.insert(groups, {window, 0, 0, 0});
    ++groups->groups;
    groups->token += resolved->cache_shape.unit_bytes() / kernels::kBlockSize;
    groups->sequence += resolved->cache_shape.sequence_bytes(memory.options.max_context, window);
  }
  memory.cache = blocks * block;
  memory.full_sequences = memory.cache / std::max<std::uint64_t>(memory.cache_sequence, 1);
  memory.state = resolved->cache_shape.state_floats() * sizeof(float);
  memory.states =
      (std::uint64_t{memory.options.max_num_seqs} + memory.options.saved_states) * memory.state;
  memory.scratch = scratch_bytes(source.config, memory.options);
  return report;
}

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
  if (source.has_weights) {
    text += row("format", fmt::format("{}, {}", source.format, show_bytes(source.file_bytes)));
  } else {
    text += row("format", source.format);
    text += row("weights",
                "none are there: their types are those that the configuration names, bytes about");
  }
  text += row("family", config.family);
  text += row("parameters", show_count(report.parameters));
  text += row("layers", fmt::format("{}, {} wide", config.layers.size(), config.hidden_size));
  const std::vector<LayerKind> kinds = layer_kinds(config);
  for (const LayerKind& kind : kinds)
    text += row(kinds.size() == 1 ? "  each" : fmt::format("  {} of", kind.layers), kind.text);
  if (const LayerKind drafts = draft_kind(config); drafts.layers > 0)
    text += row("  to draft", drafts.text);
  text += row("context", std::to_string(config.max_context));
  text += row("vocabulary", fmt::format("{}{}", config.vocab_size,
                                        config.tied_embeddings ? ", embeddings tied" : ""));
  if (const std::string pooled = pooled_text(config); !pooled.empty())
    text += row(config.score == load::Score::kNone ? "embedding" : "score", pooled);
  text += row("tokenizer", report.tokenizer);
  text += row("chat template", report.chat_template ? "yes"
                               : report.built_in_template.empty()
                                   ? "no"
                                   : "no; built in: " + report.built_in_template);
  return text;
}

std::string memory_part(const MemoryNeed& need) {
  const EngineOptions& options = need.options;
  std::string text = fmt::format("\nmemory for {} sequences of {} positions\n",
                                 options.max_num_seqs, options.max_context);
  text +=
      row("  weights",
          need.weights_own == 0
              ? show_bytes(need.weights()) + ", in the mapped file"
              : fmt::format("{}: {} of its own, {} in the mapped file", show_bytes(need.weights()),
                            show_bytes(need.weights_own), show_bytes(need.weights_mapped)));
  text += row("  cache", fmt::format("{} ({}): {} blocks of 16 positions", show_bytes(need.cache),
                                     options.cache_type, options.kv_blocks));
  std::string position = show_bytes(need.cache_token) + " per position";
  if (need.cache_kept < need.cache_token)
    position += fmt::format(" ({} behind the windows)", show_bytes(need.cache_kept));
  text += row("", fmt::format("{}, {} per full sequence; {} full sequences fit", position,
                              show_bytes(need.cache_sequence), need.full_sequences));
  if (need.cache_kept < need.cache_token) {
    for (const CacheGroups& of : need.groups) {
      text += row("", fmt::format("{} of {}: {} per position, {} per full sequence",
                                  of.groups == 1 ? "a group" : fmt::format("{} groups", of.groups),
                                  of.window == 0 ? "all positions"
                                                 : fmt::format("a window of {}", of.window),
                                  show_bytes(of.token), show_bytes(of.sequence)));
    }
  }
  if (need.states > 0)
    text += row("  states",
                fmt::format("{} ({} each): {} sequences, {} saved", show_bytes(need.states),
                            show_bytes(need.state), options.max_num_seqs, options.saved_states));
  text += row("  scratch", fmt::format("about {} ({} tokens in a step)", show_bytes(need.scratch),
                                       options.max_num_batched_tokens));
  text += row("  in all",
              "about " + show_bytes(need.weights() + need.cache + need.states + need.scratch));
  if (!need.notice.empty()) text += need.notice + '\n';
  return text;
}

}  // namespace

std::string report_text(const load::ModelSource& source, const ModelReport& report, bool tensors) {
  std::string text = model_part(source, report);
  text += "\ntensors\n";
  for (const auto& [name, share] : report.types) {
    text += row(
        "  " + name,
        fmt::format("{:>5}, {} parameters, {}{}", share.tensors, show_count(share.parameters),
                    show_bytes(share.bytes),
                    share.packed > 0 ? fmt::format(", packed {}", show_bytes(share.packed)) : ""));
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
               {"disk_bytes", source.file_bytes},
               {"has_weights", source.has_weights},
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
  if (LayerKind drafts = draft_kind(config); drafts.layers > 0)
    json["draft_layer"] = std::move(drafts.json);
  for (const auto& [name, share] : report.types) {
    json["types"][name] = {{"tensors", share.tensors},
                           {"parameters", share.parameters},
                           {"bytes", share.bytes},
                           {"packed_bytes", share.packed}};
  }
  json["memory"] = {{"max_num_seqs", need.options.max_num_seqs},
                    {"max_model_len", need.options.max_context},
                    {"max_num_batched_tokens", need.options.max_num_batched_tokens},
                    {"kv_blocks", need.options.kv_blocks},
                    {"kv_cache_dtype", need.options.cache_type},
                    {"weights_bytes", need.weights()},
                    {"weights_own_bytes", need.weights_own},
                    {"weights_mapped_bytes", need.weights_mapped},
                    {"weights_notice", need.notice},
                    {"cache_bytes_per_token", need.cache_token},
                    {"cache_bytes_per_token_behind_windows", need.cache_kept},
                    {"cache_bytes_per_sequence", need.cache_sequence},
                    {"cache_bytes", need.cache},
                    {"full_sequences", need.full_sequences},
                    {"state_bytes_per_sequence", need.state},
                    {"states_bytes", need.states},
                    {"scratch_bytes_estimate", need.scratch}};
  for (const CacheGroups& of : need.groups) {
    json["memory"]["cache_groups"].push_back({{"sliding_window", of.window},
                                              {"groups", of.groups},
                                              {"bytes_per_token", of.token},
                                              {"bytes_per_sequence", of.sequence}});
  }
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
