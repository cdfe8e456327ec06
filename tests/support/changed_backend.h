#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/step_loop.h"
#include "kernels/kernels.h"
#include "model/backend.h"

namespace dovetail::test {

// Forwards all calls to another backend, and lets a test change the segments of a pass before.
// Those without outputs may be removed.
class ChangedBackend : public model::Backend {
 public:
  using Change = std::function<void(std::vector<model::Segment>& segments)>;

  ChangedBackend(std::unique_ptr<model::Backend> inner, Change change)
      : inner_(std::move(inner)), change_(std::move(change)) {}

  std::string_view kernels() const override { return inner_->kernels(); }
  const model::CacheShape& cache_shape() const override { return inner_->cache_shape(); }
  Status forward(std::span<const model::Segment> segments, std::span<float> logits,
                 std::span<float> hidden) override {
    std::vector<model::Segment> changed(segments.begin(), segments.end());
    change_(changed);
    return changed.empty() ? Status() : inner_->forward(changed, logits, hidden);
  }
  Status logits(std::span<const float* const> hidden, std::span<float> logits) override {
    return inner_->logits(hidden, logits);
  }
  Status draft(std::span<const model::DraftRow> rows) override { return inner_->draft(rows); }
  std::vector<float> apply_head(std::vector<float> row) const override {
    return inner_->apply_head(std::move(row));
  }
  float score(std::span<const float> row) const override { return inner_->score(row); }
  void copy_blocks(std::span<const model::BlockCopy> copies) override {
    inner_->copy_blocks(copies);
  }
  void poison_blocks(std::span<const std::uint32_t> blocks) override {
    inner_->poison_blocks(blocks);
  }
  void poison_states(std::span<const std::uint32_t> slots) override {
    inner_->poison_states(slots);
  }
  void take_trace(observe::LaneLog& log) override { inner_->take_trace(log); }

 private:
  std::unique_ptr<model::Backend> inner_;
  Change change_;
};

// The CPU's backend with changed segments.
inline engine::OpenBackend with_changed_segments(ChangedBackend::Change change) {
  return [change = std::move(change)](
             auto source, const engine::ResolvedOptions& resolved,
             cores::Executor& executor) -> Result<std::unique_ptr<model::Backend>> {
    auto inner = engine::open_on_cpu(std::move(source), resolved, executor);
    if (!inner) return fail(inner.error());
    return std::make_unique<ChangedBackend>(*std::move(inner), change);
  };
}

// The CPU's backend with kernels of the test's, which outlive it.
inline engine::OpenBackend with_kernels(const kernels::Kernels& kernels) {
  return [&kernels](auto source, engine::ResolvedOptions resolved, cores::Executor& executor) {
    resolved.kernels = &kernels;
    return engine::open_on_cpu(std::move(source), resolved, executor);
  };
}

}  // namespace dovetail::test
