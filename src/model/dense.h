#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cores/workers.h"
#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/cache.h"
#include "model/linear.h"
#include "model/rope.h"
#include "model/weights.h"

namespace dovetail::model {

// Consecutive tokens of one sequence in one forward pass: a prefill chunk or a decode row.
struct Segment {
  std::span<const std::int32_t> tokens;        // ids in [0, vocab_size)
  std::uint32_t first_position = 0;            // of tokens[0]; everything before it is in the cache
  std::span<const std::uint32_t> block_table;  // covers first_position + tokens.size() positions
  std::uint32_t logit_rows = 0;                // of the last so many tokens
};

// A dense decoder: RMS norm, grouped-query attention with RoPE, SwiGLU (Llama,
// https://arxiv.org/abs/2302.13971; Mistral, Qwen2 and Qwen3 differ by configuration alone).
//
// Every value of a token depends on that token's own sequence only, and is reduced in an order that
// depends on the model only: the segments that share a pass, the way a prompt is cut into segments
// and the number of workers leave no trace in the bits. One thread at a time.
class DenseModel {
 public:
  // `kernels` and `workers` must outlive the model.
  DenseModel(std::shared_ptr<const load::ModelSource> source, const kernels::Kernels& kernels,
             cores::Workers& workers);

  const load::ModelConfig& config() const { return config_; }
  CacheShape cache_shape(kernels::CacheType type) const;

  // Computes all segments, writes their keys and values into the cache and logit_rows rows of
  // vocab_size logits per segment, in the order of their tokens. Segments belong to different
  // sequences; a block that two of their tables share lies wholly before both first positions.
  void forward(std::span<const Segment> segments, const Cache& cache, std::span<float> logits);

 private:
  // Where a token of the pass belongs.
  struct Place {
    std::uint32_t segment = 0;
    std::uint32_t position = 0;
  };
  // Tokens of one segment whose attention is one task per key/value head.
  struct QueryTile {
    std::uint32_t segment = 0;
    std::uint32_t row = 0;  // of its first token in the pass
    std::uint32_t position = 0;
    std::uint32_t rows = 0;
  };

  void begin_pass(std::span<const Segment> segments);
  void attention(std::uint32_t layer, std::span<const Segment> segments, const Cache& cache);
  void place_heads(std::uint32_t layer, std::size_t row, const Segment& segment,
                   const Cache& cache);
  void attend(std::uint32_t layer, std::uint32_t kv_head, const QueryTile& tile,
              const Segment& segment, const Cache& cache);
  void mlp(std::uint32_t layer);
  void project_logits(std::span<const Segment> segments, std::span<float> logits);

  load::ModelConfig config_;
  const kernels::Kernels& kernels_;
  cores::Workers& workers_;
  DenseWeights weights_;
  RopeTable rope_;
  std::size_t query_size_, kv_size_;  // of all heads of a token

  // Of the pass under way; [tokens][...].
  std::vector<Place> places_;
  std::vector<QueryTile> tiles_;
  PreparedRows prepared_;
  std::vector<float> residual_, query_, key_, value_, attended_, gate_, up_, projected_;
};

}  // namespace dovetail::model
