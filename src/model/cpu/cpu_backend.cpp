#include "model/cpu/cpu_backend.h"

#include <cassert>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cores/trace.h"
#include "model/cpu/cache.h"
#include "model/cpu/drafter.h"
#include "model/cpu/model_runner.h"
#include "model/cpu/weights.h"

namespace dovetail::model {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(const std::shared_ptr<const ModelWeights>& weights, const kernels::Kernels& kernels,
             cores::Executor& executor, const BackendOptions& options, Cache cache)
      : name_(kernels.name),
        executor_(executor),
        cache_(std::move(cache)),
        runner_(weights, kernels, executor, options.context) {
    if (options.draft_tokens == 0) return;
    drafter_.emplace(weights, kernels, executor, options, cache_);
    runner_.keep_rows(true);
  }

  std::string_view kernels() const override { return name_; }
  const CacheShape& cache_shape() const override { return cache_.shape(); }

  Status forward(std::span<const Segment> segments, std::span<float> logits,
                 std::span<float> hidden) override {
    runner_.forward(segments, cache_, logits, hidden);
    if (!drafter_) return {};
    note_slices(runner_);
    drafter_->follow(segments, runner_);
    note_slices(drafter_->runner());
    return {};
  }

  Status logits(std::span<const float* const> hidden, std::span<float> logits) override {
    runner_.logits(hidden, logits);
    note_slices([this](const cores::Span& span) { return runner_.logits_slice(span); });
    return {};
  }

  Status draft(std::span<const DraftRow> rows) override {
    assert(drafter_);
    drafter_->draft(rows, [this] { note_slices(drafter_->runner()); });
    return {};
  }

  std::vector<float> apply_head(std::vector<float> row) const override {
    return runner_.head().apply(std::move(row));
  }
  float score(std::span<const float> row) const override { return runner_.head().score(row); }

  void copy_blocks(std::span<const BlockCopy> copies) override {
    for (const auto [from, to] : copies) cache_.copy(from, to);
  }
  void poison_blocks(std::span<const std::uint32_t> blocks) override {
    for (const std::uint32_t block : blocks) cache_.poison(block);
  }
  void poison_states(std::span<const std::uint32_t> slots) override {
    for (const std::uint32_t slot : slots) cache_.poison_state(slot);
  }

  void take_trace(observe::LaneLog& log) override {
    note_slices(runner_);
    for (const observe::LaneSlice& slice : slices_) log.write(slice);
    slices_.clear();
  }

 private:
  // Of the pass that ran last: the executor knows no runner. Nothing where it keeps no trace.
  void note_slices(const ModelRunner& runner) {
    note_slices([&runner](const cores::Span& span) { return runner.slice(span); });
  }
  void note_slices(const std::function<observe::LaneSlice(const cores::Span&)>& slice) {
    observe::LaneLog log(kMostSlices);
    cores::write_slices(executor_.take_spans(), executor_.topology(), slice, log);
    slices_.insert(slices_.end(), log.slices().begin(), log.slices().end());
  }

  static constexpr std::size_t kMostSlices = std::size_t{1} << 20;

  std::string_view name_;
  cores::Executor& executor_;
  Cache cache_;
  ModelRunner runner_;
  std::optional<Drafter> drafter_;
  std::vector<observe::LaneSlice> slices_;  // since they were last asked for
};

}  // namespace

std::uint32_t cpu_tasks(const load::ModelConfig& config) { return ModelRunner::max_tasks(config); }

Result<std::unique_ptr<Backend>> open_cpu(std::shared_ptr<const load::ModelSource> source,
                                          const BackendOptions& options,
                                          const kernels::Kernels& kernels,
                                          cores::Executor& executor, const PackOptions& packing) {
  Result<Cache> cache =
      Cache::create(options.cache, options.blocks, options.slots, options.saved_states);
  if (!cache) return fail(cache.error());
  const auto weights = std::make_shared<ModelWeights>(
      bind_weights(std::move(source), kernels, options.draft_tokens > 0));
  if (const Status packed = pack_weights(*weights, kernels, packing); !packed)
    return fail(packed.error());
  return std::make_unique<CpuBackend>(weights, kernels, executor, options, *std::move(cache));
}

}  // namespace dovetail::model
