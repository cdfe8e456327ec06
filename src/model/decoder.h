#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "cores/executor.h"
#include "cores/recording.h"
#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/cache.h"
#include "model/experts.h"
#include "model/linear.h"
#include "model/pass.h"
#include "model/rope.h"
#include "model/weights.h"
#include "observe/event_log.h"

namespace dovetail::model {

// A decoder: RMS norm, grouped-query attention with RoPE, SwiGLU (Llama,
// https://arxiv.org/abs/2302.13971; Mistral, Qwen2 and Qwen3 differ by configuration alone), or
// experts in its place (Mixtral, Qwen3's mixtures).
//
// A forward pass is a graph of tasks: its rows go through the layers in tiles, each a chain of
// tasks of its own, which wait for each other only where a row attends to keys of another tile: one
// with rows of the same sequence. A graph is recorded when its shape first comes (how many tiles,
// and which of them share sequences), and run again when it comes again; a pass sets the numbers of
// blocks.
//
// Every value of a token depends on that token's own sequence only, and is reduced in an order that
// depends on the model only: the segments that share a pass, the way a prompt is cut into segments
// or a pass into tiles, and the number of lanes leave no trace in the bits. One thread at a time.
class Decoder {
 public:
  // `kernels` and `executor`, which has room for max_tasks() and a thread for each lane, must
  // outlive the model.
  Decoder(DecoderWeights weights, const kernels::Kernels& kernels, cores::Executor& executor);
  // With weights as they lie in the files.
  Decoder(std::shared_ptr<const load::ModelSource> source, const kernels::Kernels& kernels,
          cores::Executor& executor);

  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Tasks that the executor must have room for (GraphOptions::tasks).
  static std::uint32_t max_tasks(const load::ModelConfig& config);

  const load::ModelConfig& config() const { return config_; }
  CacheShape cache_shape(kernels::CacheType type) const;

  // Computes all segments, writes their keys and values into the cache and logit_rows rows of
  // vocab_size logits per segment, in the order of their tokens. Segments belong to different
  // sequences; a block that two of their tables share lies wholly before both first positions: no
  // row of the pass writes to it, so that sequences need not wait for each other. Nothing else may
  // run on the executor.
  void forward(std::span<const Segment> segments, const Cache& cache, std::span<float> logits);

  // What a lane did in the last pass, by what the executor says of it (Executor::take_spans()).
  observe::LaneSlice slice(const cores::Span& span) const;

  // The graph of the last pass. Valid until the next one.
  const cores::Recording& last_graph() const;

  // Graphs that are kept; the one that was not run for the longest time makes room.
  static constexpr std::size_t kMostGraphs = 16;

 private:
  // The tasks of a tile, in their order: kEmbed; in every layer from kNorm to kMlpNorm, and then
  // kGateUp to kDown or, where there are experts, kRouter to kCombine; kLogitRows. kLogits follows
  // once, after all tiles.
  enum class Stage : std::uint8_t {
    kEmbed,
    kNorm,           // what the layer before gave is added; attention norm
    kQueryKeyValue,  // products
    kPlace,          // biases, head norms and rotation; keys and values into the cache
    kAttend,         // query tiles x key/value heads (x segments of the context)
    kAttended,       // what attention gave is merged, if it came by segments, and prepared
    kOutput,         // product
    kMlpNorm,        // what attention gave is added; norm
    kGateUp,         // products
    kActivate,       // SwiGLU
    kDown,           // product
    kRouter,         // product
    kChoose,         // the rows' experts
    kSort,           // the experts' rows
    kExperts,        // all their products and SwiGLU
    kCombine,        // what the experts gave, by row
    kLogitRows,      // what the last layer gave is added; norm of the rows that have logits
    kLogits,         // product
  };
  static constexpr std::size_t kStages = 18;

  // Of every layer, and then of its feed-forward.
  static constexpr std::array kLayerStages = {Stage::kNorm,   Stage::kQueryKeyValue, Stage::kPlace,
                                              Stage::kAttend, Stage::kAttended,      Stage::kOutput,
                                              Stage::kMlpNorm};
  static std::span<const Stage> mlp_stages(const load::ModelConfig& config);

  struct LayerProducts {
    Linear query_key_value, output;
  };

  using Blocks = std::array<std::uint32_t, kStages>;  // of the stages of a tile

  // What of a pass its graph depends on.
  struct Shape {
    std::uint32_t tiles = 0;
    std::array<std::uint8_t, Pass::kMostTiles> first_shared = {};  // by tile
    bool operator==(const Shape&) const = default;
  };

  // A tile whose attention is computed by segments of the context: what it gives is stored from
  // `begin` of parts_ on, [row of the tile][key/value head][segment][head of the group].
  struct Split {
    std::size_t begin = 0;
    std::uint32_t segments = 0;  // 0: the tile is not split
  };

  // A recorded pass.
  struct Graph {
    struct Task {
      Stage stage = Stage::kEmbed;
      std::uint32_t layer = 0, tile = 0;
    };
    Shape shape;
    std::vector<Task> tasks;  // by number
    cores::Recording recording;
    std::vector<Blocks> blocks, last_blocks;  // the Decoder's that the recording has
  };

  Shape shape() const;
  Graph& graph_of(const Shape& shape);
  Graph record(const Shape& shape);
  static cores::TaskShape lanes_for(Stage stage);
  void share_out();
  void cut(Graph& graph) const;
  std::uint32_t blocks_of(Stage stage, std::uint32_t layer, std::uint32_t tile) const;

  void run(Stage stage, std::uint32_t layer, std::uint32_t tile, const cores::Part& part);
  void embed(const RowTile& tile, const Range& rows);
  void norm(std::uint32_t layer, const RowTile& tile, const Range& rows);
  void place(std::uint32_t layer, const RowTile& tile, const Range& rows);
  void attend(std::uint32_t layer, std::uint32_t tile, std::uint32_t block, std::uint32_t blocks);
  void attend(std::uint32_t layer, std::uint32_t kv_head, const QueryTile& queries,
              kernels::AttentionArgs args);
  Range segments_of(std::uint32_t position, std::uint32_t rows) const;
  std::uint32_t attention_items(std::uint32_t tile, const Range& queries) const;
  float* parts_of(std::uint32_t tile, std::uint32_t row, std::uint32_t kv_head,
                  std::uint32_t segment);
  void split_attention();
  void take_attended(std::uint32_t layer, std::uint32_t tile, const Range& rows);
  void mlp_norm(std::uint32_t layer, const RowTile& tile, const Range& rows);
  void activate(std::uint32_t layer, const RowTile& tile, const Range& rows);
  void logit_rows(const RowTile& tile, const Range& rows);

  const Linear& mlp_input(std::uint32_t layer) const;
  Experts::Rows expert_rows(std::uint32_t layer, std::uint32_t tile) const;
  std::uint32_t rows_of(std::uint32_t layer, const RowTile& tile) const;
  std::uint32_t row_at(std::uint32_t layer, const RowTile& tile, std::uint32_t index) const;
  std::byte* prepared(const RowTile& tile) const;

  load::ModelConfig config_;
  const kernels::Kernels& kernels_;
  cores::Executor& executor_;
  std::size_t lanes_;
  DecoderWeights weights_;
  std::vector<LayerProducts> products_;            // by layer
  std::vector<FeedForwardProducts> feed_forward_;  // by layer, where there are no experts
  std::optional<Experts> experts_;
  Linear logits_product_;
  RopeTable rope_;
  std::size_t query_size_, kv_size_;  // of all heads of a token
  std::size_t prepared_row_bytes_ = 0;
  std::list<Graph> graphs_;  // the one that ran last first

  // Of the pass under way. Matrices are [rows of the pass][...]. Where a layer has fewer rows than
  // the pass, those of a tile lie together from its first row on in all but residual_, query_ and
  // attended_.
  Pass pass_;
  const Cache* cache_ = nullptr;
  std::span<float> logits_;
  std::vector<Blocks> blocks_, last_blocks_;  // by tile; the latter of the last layer
  std::vector<Split> splits_;                 // by tile
  std::vector<float> parts_;
  std::vector<float> residual_, query_, key_, value_, attended_, gate_, up_, projected_;
  AlignedBuffer prepared_, prepared_logit_rows_;
};

}  // namespace dovetail::model
