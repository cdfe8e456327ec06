#include "model/blocks/compressor.h"

#include <algorithm>
#include <limits>

#include "model/mutation.h"

namespace dovetail::model {

Compressor::Compressor(const load::CompressedConfig& config, const ModelWeights& weights,
                       const std::string& layer, std::uint32_t state_layer,
                       const kernels::Kernels& kernels)
    : config_(config),
      state_layer_(state_layer),
      kernels_(kernels),
      columns_(std::size_t{config.halves()} * config.entry_dim()),
      places_(config.ratio * columns_) {
  std::size_t before = 0;
  const auto add = [&](const std::string& name) {
    const Matrix& matrix = weights.matrix(name);
    const std::size_t bytes = kernels::row_bytes(matrix.type, matrix.columns);
    for (std::size_t token = 0; token < config.ratio; ++token)
      kernels.dequantize_row(matrix.type, matrix.data + token * bytes, matrix.columns,
                             places_.data() + token * columns_ + before);
    before += matrix.columns;
  };
  add(layer + "compress_ape.weight");
  if (config.index_heads > 0) add(layer + "indexer.compress_ape.weight");
}

template <class Function>
void Compressor::for_each_span(const Range& channels, const Function& function) const {
  const std::size_t halves = config_.halves();
  std::size_t first = 0;
  std::size_t columns = 0;
  for (const std::size_t dim : {config_.head_dim, config_.index_dim}) {
    const std::size_t begin = std::max<std::size_t>(channels.begin, first);
    const std::size_t end = std::min<std::size_t>(channels.end, first + dim);
    if (begin < end) {
      const std::size_t next = columns + begin - first;
      function(Span{begin, next, next + (halves - 1) * dim, end - begin});
    }
    first += dim;
    columns += halves * dim;
  }
}

// A token's rows into the state.
void Compressor::keep(const float* row, std::uint32_t position, const Span& span,
                      float* state) const {
  float* to = state + position % config_.tokens() * row_size();
  const float* place = places_.data() + position % config_.ratio * columns_;
  for (const std::size_t first : {span.next, span.own}) {
    std::copy_n(row + first, span.count, to + first);
    for (std::size_t i = first; i < first + span.count; ++i)
      to[columns_ + i] = row[columns_ + i] + place[i];
  }
}

// The entry that ends with a position, of the state's tokens from `fewest` on.
void Compressor::sum(const float* state, std::uint32_t position, std::uint32_t fewest,
                     const Span& span, float* entry) const {
  thread_local std::vector<float> scratch;
  scratch.resize(3 * span.count);
  float* largest = scratch.data();
  float* weight = largest + span.count;
  float* all = weight + span.count;
  float* out = entry + span.channel;
  const std::uint32_t end = position + 1;
  const std::uint32_t first = std::max(end - std::min(end, config_.tokens()), fewest);
  const auto for_each_token = [&](const auto& function) {
    for (std::uint32_t token = first; token < end; ++token) {
      const bool own = end - token <= config_.ratio;
      const float* row =
          state + token % config_.tokens() * row_size() + (own ? span.own : span.next);
      function(row, row + columns_);
    }
  };
  std::fill_n(largest, span.count, -std::numeric_limits<float>::infinity());
  for_each_token([&](const float*, const float* gate) {
    for (std::size_t i = 0; i < span.count; ++i)
      largest[i] = gate[i] > largest[i] ? gate[i] : largest[i];
  });
  std::fill_n(all, span.count, 0.0F);
  std::fill_n(out, span.count, 0.0F);
  for_each_token([&](const float* row, const float* gate) {
    for (std::size_t i = 0; i < span.count; ++i) weight[i] = gate[i] - largest[i];
    kernels_.apply(kernels::Function::kExp, weight, span.count, weight);
    kernels_.add(all, weight, span.count);
    kernels_.multiply(weight, row, span.count);
    kernels_.add(out, weight, span.count);
  });
  for (std::size_t i = 0; i < span.count; ++i) out[i] /= all[i];
}

void Compressor::apply(const Cache& cache, const Run& run, const Range& channels, const float* rows,
                       float* entries) const {
  const LayerStates states{cache, state_layer_};
  float* state = states.of(run.slot);
  for_each_span(channels, [&](const Span& span) {
    const StateSave* save = run.saves.data();
    const StateSave* end = save + run.saves.size();
    for (std::uint32_t i = run.begin; i < run.end; ++i) {
      const std::uint32_t position = run.position + (i - run.begin);
      keep(rows + i * row_size(), position, span, state);
      if ((position + 1) % config_.ratio == 0) {
        const bool alone = mutated(Mutant::kEntryOfRowsAlone);
        sum(state, position, alone ? run.position : 0, span, entries + i * this->channels());
      }
      for (; save != end && run.until(*save) <= i + 1 - run.begin; ++save) {
        float* saved = states.of(*save);
        for (std::size_t token = 0; token < config_.tokens(); ++token) {
          for (const std::size_t first : {span.next, span.own}) {
            for (const std::size_t column : {first, columns_ + first}) {
              const std::size_t at = token * row_size() + column;
              std::copy_n(state + at, span.count, saved + at);
            }
          }
        }
      }
    }
  });
}

}  // namespace dovetail::model
