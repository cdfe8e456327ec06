#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "load/model_config.h"
#include "model/blocks/states.h"
#include "model/blocks/workspace.h"
#include "model/cpu/weights.h"

namespace dovetail::model {

// Sums of tokens' rows, channel by channel, by a softmax over the tokens (load::CompressedConfig):
// what becomes a compressed entry. A token gives two rows of halves() * entry_dim() floats, what is
// summed and its gate, those of the entry's key first and then those of the indexer's; a sequence's
// last tokens() of them are its state, [token % tokens()][2][...], so that neither chunks nor
// passes leave a trace. Different channels may be computed by different threads.
class Compressor {
 public:
  Compressor(const load::CompressedConfig& config, const ModelWeights& weights,
             const std::string& layer, std::uint32_t state_layer, const kernels::Kernels& kernels);

  // Floats of a token's two rows; where the gates begin.
  std::size_t row_size() const { return 2 * columns_; }
  std::size_t gates() const { return columns_; }
  // Channels of an entry.
  std::size_t channels() const { return config_.entry_dim(); }

  // Some channels of a run's rows: `rows` has what the tokens gave, [row of the tile][row_size()];
  // for a token that ends an entry `entries`, [row of the tile][channels()], gets its sums.
  void apply(const Cache& cache, const Run& run, const Range& channels, const float* rows,
             float* entries) const;

 private:
  // Channels of one part of an entry, and the columns of a row that they have: of the half for the
  // next entry, and of the one for the token's own, which are the same where entries do not
  // overlap.
  struct Span {
    std::size_t channel, next, own, count;
  };
  template <class Function>
  void for_each_span(const Range& channels, const Function& function) const;
  void keep(const float* row, std::uint32_t position, const Span& span, float* state) const;
  void sum(const float* state, std::uint32_t position, std::uint32_t fewest, const Span& span,
           float* entry) const;

  load::CompressedConfig config_;
  std::uint32_t state_layer_;
  const kernels::Kernels& kernels_;
  std::size_t columns_;
  std::vector<float> places_;  // [token of an entry][columns_]: what is added to gates
};

}  // namespace dovetail::model
