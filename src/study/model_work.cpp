#include "study/model_work.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cache_type.h"
#include "load/tensor_roles.h"
#include "model/cpu/weights.h"

namespace dovetail::study {
namespace {

// Of one of several, which have numbers.
bool is_expert(std::string_view name) {
  for (const std::string_view stem : {".ffn_gate.", ".ffn_up.", ".ffn_down."}) {
    const std::size_t at = name.find(stem);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = name.substr(at + stem.size());
    return !rest.empty() && rest.front() >= '0' && rest.front() <= '9';
  }
  return false;
}

// Positions that `tokens` rows from `first` on see, all together.
double seen_positions(std::uint32_t first, std::uint32_t tokens, std::uint32_t window) {
  if (window == 0) return tokens * (first + (tokens + 1) / 2.0);
  double sum = 0.0;
  for (std::uint32_t row = 0; row < tokens; ++row) sum += std::min(first + row + 1, window);
  return sum;
}

}  // namespace

StepWork& StepWork::operator+=(const StepWork& other) {
  bytes += other.bytes;
  bf16 += other.bf16;
  floats += other.floats;
  memory += other.memory;
  return *this;
}

void ModelWork::Products::add(const load::TensorView& matrix, bool every_row, double share,
                              bool use_bf16) {
  StepWork& work = every_row ? every : logits;
  const double products =
      share * static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns);
  if (!kernels::is_float(matrix.type)) {
    work.bytes += products;
  } else if (use_bf16 && matrix.type == kernels::DataType::kBF16) {
    work.bf16 += products;
  } else {
    work.floats += products;
  }
}

ModelWork::ModelWork(const load::ModelSource& source, const model::CacheShape& cache, bool bf16) {
  const load::ModelConfig& config = source.config;
  std::size_t cached = 0;  // layers
  // The first layer that computes only rows with logits beyond its keys and values.
  std::size_t first_last = config.layers.size() - 1;
  const auto shares_keys = [&](std::size_t layer) {
    const load::AttentionConfig* attention = config.layers[layer].attention();
    return attention != nullptr && attention->shares >= 0;
  };
  while (shares_keys(first_last)) --first_last;
  std::vector<std::size_t> held_by(config.layers.size());  // of the cache's, by layer
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    const load::LayerConfig& layer = config.layers[i];
    if (const load::ExpertsConfig* experts = layer.experts())
      experts_used_ = static_cast<double>(experts->used) / experts->count;
    const load::AttentionConfig* attention = layer.attention();
    const load::LatentConfig* latent = layer.latent();
    const load::CompressedConfig* compressed = layer.compressed();
    if (attention == nullptr && latent == nullptr && compressed == nullptr) continue;
    held_by[i] = shares_keys(i) ? held_by[static_cast<std::size_t>(attention->shares)] : cached++;
    const model::CacheShape::Layer& held = cache.layers()[held_by[i]];
    Attention kind;
    if (compressed != nullptr) {
      // Its window, as far as it goes; entries beside it are few, but for the indexer's.
      if (compressed->ratio > 0) ++cached;
      kind.window = compressed->window;
      kind.query = static_cast<double>(compressed->heads) * compressed->head_dim;
    } else if (attention != nullptr) {
      kind.window = attention->window;
      kind.query = static_cast<double>(attention->heads) * attention->head_dim;
    } else {
      // What a generated token does; a prompt's makes keys and values first, which costs as much
      // where it is some 171 tokens long, and less where it is longer.
      kind.query = latent->heads * (latent->cached_dim() + latent->latent_dim) / 2.0;
      // The indexer's scores of all positions cost little beside what it picks.
      kind.window = latent->index_top;
      if (latent->index_heads > 0) ++cached;
    }
    kind.position_bytes = static_cast<double>(held.tiles) * held.kv_heads *
                          static_cast<double>(held.tile_bytes) /
                          static_cast<double>(kernels::kBlockSize);
    auto known = std::find_if(attention_.begin(), attention_.end(), [&](const Attention& other) {
      return other.window == kind.window && other.query == kind.query &&
             other.position_bytes == kind.position_bytes;
    });
    if (known == attention_.end()) known = attention_.insert(attention_.end(), kind);
    ++known->layers;
    if (i >= first_last) ++known->last;
  }
  std::vector<std::string> last;  // what names of these layers begin with
  for (std::size_t i = first_last; i < config.layers.size(); ++i)
    last.push_back("blk." + std::to_string(i) + ".");
  for (const auto& [key, tensor] : source.tensors) {
    const std::string& name = key;  // clang 14 captures no structured binding
    if (tensor.rows <= 1) continue;
    // A look-up reads a row of it; where it is the output's matrix too, that is its product.
    if (load::is_embedding(name) && (name != "token_embd.weight" || !config.tied_embeddings))
      continue;
    const bool of_expert = experts_used_ > 0.0 && is_expert(name);
    const bool layer = name.starts_with("blk.") || name == "per_layer_model_proj.weight";
    const bool of_last = std::any_of(last.begin(), last.end(), [&](const std::string& prefix) {
      return name.starts_with(prefix);
    });
    const bool key_or_value = name.find(".attn_k.") != std::string::npos ||
                              name.find(".attn_v.") != std::string::npos ||
                              name.find(".attn_kv_a_mqa.") != std::string::npos;
    products_.add(tensor, layer && (!of_last || key_or_value), of_expert ? experts_used_ : 1.0,
                  bf16);
    (of_expert ? expert_bytes_ : weight_bytes_) += static_cast<double>(tensor.bytes());
  }
}

StepWork ModelWork::of_step(const schedule::StepPlan& plan) const {
  StepWork work;
  double rows = 0.0, logit_rows = 0.0;
  for (const schedule::Row& row : plan.rows) {
    const std::uint32_t end = row.first_position + row.tokens, wanted = row.logit_rows();
    rows += row.tokens;
    logit_rows += wanted;
    for (const Attention& kind : attention_) {
      const double seen = seen_positions(row.first_position, row.tokens, kind.window);
      const double seen_last = seen_positions(end - wanted, wanted, kind.window);
      // A query's products with keys, and its weights' with values.
      work.floats += 2.0 * kind.query * (seen * (kind.layers - kind.last) + seen_last * kind.last);
      const std::uint32_t read = kind.window == 0 ? end : std::min(end, kind.window + row.tokens);
      work.memory += read * kind.position_bytes * kind.layers;
    }
  }
  const auto add = [&work](const StepWork& products, double times) {
    work.bytes += products.bytes * times;
    work.bf16 += products.bf16 * times;
    work.floats += products.floats * times;
  };
  add(products_.every, rows);
  add(products_.logits, logit_rows);
  // Experts that no row chose are not read: of so many rows that choose alike, by chance.
  const double chosen = experts_used_ > 0.0 ? 1.0 - std::pow(1.0 - experts_used_, rows) : 0.0;
  work.memory += weight_bytes_ + chosen * expert_bytes_;
  return work;
}

}  // namespace dovetail::study
