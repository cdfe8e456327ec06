#include "model/cpu/cpu_backend.h"

#include <utility>

#include "cores/trace.h"
#include "model/cpu/cache.h"
#include "model/cpu/model_runner.h"
#include "model/cpu/weights.h"

namespace dovetail::model {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(ModelWeights weights, const kernels::Kernels& kernels, cores::Executor& executor,
             std::uint32_t context, Cache cache)
      : name_(kernels.name),
        executor_(executor),
        cache_(std::move(cache)),
        runner_(std::move(weights), kernels, executor, context) {}

  std::string_view kernels() const override { return name_; }
  const CacheShape& cache_shape() const override { return cache_.shape(); }

  Status forward(std::span<const Segment> segments, std::span<float> logits,
                 std::span<float> hidden) override {
    runner_.forward(segments, cache_, logits, hidden);
    return {};
  }

  std::vector<float> apply_head(std::vector<float> row) const override {
    return runner_.head().apply(std::move(row));
  }
  float score(std::span<const float> row) const override { return runner_.head().score(row); }

  void poison_blocks(std::span<const std::uint32_t> blocks) override {
    for (const std::uint32_t block : blocks) cache_.poison(block);
  }
  void poison_states(std::span<const std::uint32_t> slots) override {
    for (const std::uint32_t slot : slots) cache_.poison_state(slot);
  }

  void take_trace(observe::LaneLog& log) override {
    cores::write_slices(
        executor_.take_spans(), executor_.topology(),
        [this](const cores::Span& span) { return runner_.slice(span); }, log);
  }

 private:
  std::string_view name_;
  cores::Executor& executor_;
  Cache cache_;
  ModelRunner runner_;
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
  ModelWeights weights = bind_weights(std::move(source), kernels);
  if (const Status packed = pack_weights(weights, kernels, packing); !packed)
    return fail(packed.error());
  return std::make_unique<CpuBackend>(std::move(weights), kernels, executor, options.context,
                                      *std::move(cache));
}

}  // namespace dovetail::model
