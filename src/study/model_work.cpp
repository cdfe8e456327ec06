#include "study/model_work.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

namespace dovetail::study {
namespace {

bool is_expert(std::string_view name) {
  return name.find(".ffn_gate.") != std::string_view::npos ||
         name.find(".ffn_up.") != std::string_view::npos ||
         name.find(".ffn_down.") != std::string_view::npos;
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

ModelWork::ModelWork(const load::ModelSource& source, const model::CacheShape& cache, bool bf16)
    : config_(source.config),
      cache_position_bytes_(static_cast<double>(cache.block_bytes()) / kernels::kBlockSize) {
  const bool experts = config_.experts.count > 0;
  const std::string last = "blk." + std::to_string(config_.layers - 1) + ".";
  for (const auto& [name, tensor] : source.tensors) {
    if (tensor.rows <= 1) continue;
    // A look-up reads a row of it; where it is the output's matrix too, that is its product.
    if (name == "token_embd.weight" && !config_.tied_embeddings) continue;
    const bool of_expert = experts && is_expert(name);
    const bool layer = name.starts_with("blk.");
    const bool of_last = name.starts_with(last);
    const bool key_or_value =
        name.find(".attn_k.") != std::string::npos || name.find(".attn_v.") != std::string::npos;
    const double share =
        of_expert ? static_cast<double>(config_.experts.used) / config_.experts.count : 1.0;
    products_.add(tensor, layer && (!of_last || key_or_value), share, bf16);
    (of_expert ? expert_bytes_ : weight_bytes_) += static_cast<double>(tensor.bytes());
  }
}

StepWork ModelWork::of_step(const schedule::StepPlan& plan) const {
  StepWork work;
  double rows = 0.0, logit_rows = 0.0, positions = 0.0, seen = 0.0, seen_last = 0.0;
  const std::uint32_t window = config_.sliding_window;
  for (const schedule::Row& row : plan.rows) {
    const std::uint32_t end = row.first_position + row.tokens, wanted = row.logit_rows();
    rows += row.tokens;
    logit_rows += wanted;
    seen += seen_positions(row.first_position, row.tokens, window);
    seen_last += seen_positions(end - wanted, wanted, window);
    positions += window == 0 ? end : std::min(end, window + row.tokens);
  }
  const auto add = [&work](const StepWork& products, double times) {
    work.bytes += products.bytes * times;
    work.bf16 += products.bf16 * times;
    work.floats += products.floats * times;
  };
  add(products_.every, rows);
  add(products_.logits, logit_rows);
  // A query's products with keys, and its weights' with values.
  const double heads = 2.0 * config_.heads * config_.head_dim;
  work.floats += heads * (seen * (config_.layers - 1) + seen_last);
  // Experts that no row chose are not read: of so many rows that choose alike, by chance.
  double chosen = 0.0;
  if (config_.experts.count > 0) {
    const double missed = 1.0 - static_cast<double>(config_.experts.used) / config_.experts.count;
    chosen = 1.0 - std::pow(missed, rows);
  }
  work.memory = weight_bytes_ + chosen * expert_bytes_ + positions * cache_position_bytes_;
  return work;
}

}  // namespace dovetail::study
