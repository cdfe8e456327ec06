#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cores/executor.h"
#include "cores/recording.h"
#include "cores/trace.h"
#include "kernels/kernels.h"
#include "load/model_source.h"
#include "model/blocks/attention.h"
#include "model/blocks/compressed_attention.h"
#include "model/blocks/delta.h"
#include "model/blocks/draft_input.h"
#include "model/blocks/embed.h"
#include "model/blocks/expert_layer.h"
#include "model/blocks/gated_mlp.h"
#include "model/blocks/join.h"
#include "model/blocks/kimi_delta.h"
#include "model/blocks/latent_attention.h"
#include "model/blocks/layer_inputs.h"
#include "model/blocks/logits.h"
#include "model/blocks/mamba.h"
#include "model/blocks/program.h"
#include "model/blocks/short_conv.h"
#include "model/blocks/workspace.h"
#include "model/cpu/cache.h"
#include "model/cpu/experts.h"
#include "model/cpu/graph.h"
#include "model/cpu/head.h"
#include "model/cpu/pass.h"
#include "model/cpu/rope.h"
#include "model/cpu/weights.h"
#include "observe/event_log.h"

namespace dovetail::model {

// A model's forward pass: the blocks that its configuration names, layer by layer, as a program of
// steps that graphs of tasks run.
//
// Every value of a token depends on that token's own sequence only, and is reduced in an order that
// depends on the model only: the segments that share a pass, the way a prompt is cut into segments
// or a pass into tiles, and the number of lanes leave no trace in the bits. One thread at a time.
class ModelRunner {
 public:
  // The layers of the model, or the one that drafts tokens (ModelConfig::draft_layer): that takes,
  // for a row of a position, the token behind it and the hidden row of it, and gives logits of the
  // token behind that one.
  enum class Layers : std::uint8_t { kModel, kDraft };

  // `kernels` and `executor`, which has room for max_tasks() and a thread for each lane, must
  // outlive the model. `context`: the positions that a sequence may have, by which LongRoPE chooses
  // its factors; 0: as many as the model was made for.
  ModelRunner(std::shared_ptr<const ModelWeights> weights, const kernels::Kernels& kernels,
              cores::Executor& executor, std::uint32_t context = 0, Layers layers = Layers::kModel);
  // With weights as they lie in the files.
  ModelRunner(std::shared_ptr<const load::ModelSource> source, const kernels::Kernels& kernels,
              cores::Executor& executor, std::uint32_t context = 0);

  ModelRunner(const ModelRunner&) = delete;
  ModelRunner& operator=(const ModelRunner&) = delete;

  // Tasks that the executor must have room for (GraphOptions::tasks).
  static std::uint32_t max_tasks(const load::ModelConfig& config);

  // Of the layers that it runs.
  const load::ModelConfig& config() const { return config_; }
  CacheShape cache_shape(kernels::CacheType type) const {
    return model::cache_shape(config_, type);
  }

  // Backend::forward() with a cache. No row of a pass writes to a block that two tables share, so
  // that sequences need not wait for each other. Nothing else may run on the executor.
  void forward(std::span<const Segment> segments, const Cache& cache, std::span<float> logits,
               std::span<float> hidden = {});

  // Backend::logits(). Likewise.
  void logits(std::span<const float* const> hidden, std::span<float> logits);

  // From the next pass on: whether all rows go through all layers, so that kept() has what they
  // come to.
  void keep_rows(bool keep) { keeps_ = keep; }
  // Of the pass that ran last: a row's hidden_size floats behind the last norm, or, where there are
  // streams, these.
  const float* kept(std::size_t row) const { return kept_.data() + row * kept_size(); }
  std::size_t kept_size() const { return work_.residual_size(); }

  // Of the layer that drafts, before forward(): the hidden row of each row of the pass.
  void take_hidden(std::span<const float* const> rows) { std::get<DraftInput>(*input_).take(rows); }

  // What stands behind a sequence's pooled row.
  const Head& head() const { return head_; }

  // See Graphs; and of logits().
  observe::LaneSlice slice(const cores::Span& span) const { return graphs_.slice(span); }
  observe::LaneSlice logits_slice(const cores::Span& span) const {
    return cores::lane_slice(span, executor_.topology(), "logits");
  }
  const cores::Recording& last_graph() const { return graphs_.last(); }

 private:
  using Mixer = std::variant<Attention, LatentAttention, CompressedAttention, Delta, KimiDelta,
                             Mamba, ShortConv>;
  using Mlp = std::variant<model::Mlp, ExpertLayer>;

  struct Adding;

  std::string prefix(std::size_t layer) const;  // of the names of its tensors
  std::size_t alike(std::size_t i, std::size_t last) const;
  void add_layers();
  void add_experts();
  void emplace_mixer(std::size_t i, Adding& adding);
  void add_mixer(std::size_t i, Adding& adding);
  void add_mixer_beside(std::size_t i, Adding& adding);
  void add_feed_forward(std::size_t i, Adding& adding);
  void add_layer_end(std::size_t i, Adding& adding);
  const RopeTable* rope(const load::AttentionConfig& config);
  AttentionSplits& splits(const load::AttentionConfig& config);
  LatentRows& latent_rows(const load::LatentConfig& config);
  PickedEntries& picked(std::uint32_t ratio, std::uint32_t top);
  std::optional<StreamMix> stream_mix(const std::string& name, bool gives_back);

  std::shared_ptr<const ModelWeights> weights_;
  load::ModelConfig config_;
  std::size_t first_layer_ = 0;  // of the names of tensors
  std::uint32_t first_cache_layer_ = 0;
  cores::Executor& executor_;
  Workspace work_;
  // Blocks; deques, since steps refer to them.
  std::deque<RopeTable> ropes_;  // by the configuration's index
  std::deque<std::pair<load::AttentionConfig, AttentionSplits>> splits_;
  std::deque<std::pair<load::LatentConfig, LatentRows>> latent_rows_;
  std::deque<PickedEntries> picked_;
  std::deque<std::pair<load::ExpertsConfig, Experts>> experts_;
  std::optional<std::variant<Embed, DraftInput>> input_;
  std::optional<LayerInputs> layer_inputs_;
  std::deque<Mixer> mixers_;
  std::deque<Mlp> mlps_;
  std::deque<LayerInput> layer_ends_;
  std::deque<Join> joins_;
  std::optional<Logits> logits_;
  cores::Recording of_hidden_;  // Logits::record()
  Head head_;
  Program program_;
  Graphs graphs_;
  bool keeps_ = false;
  std::vector<float> kept_;
};

}  // namespace dovetail::model
