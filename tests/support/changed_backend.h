#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/step_loop.h"
#include "kernels/kernels.h"
#include "model/forwarding_backend.h"

namespace dovetail::test {

// Lets a test change the segments of a pass before another backend gets them. Those without outputs
// may be removed.
class ChangedBackend : public model::ForwardingBackend {
 public:
  using Change = std::function<void(std::vector<model::Segment>& segments)>;

  ChangedBackend(std::unique_ptr<model::Backend> inner, Change change)
      : ForwardingBackend(std::move(inner)), change_(std::move(change)) {}

  Status forward(std::span<const model::Segment> segments, std::span<float> logits,
                 std::span<float> hidden) override {
    std::vector<model::Segment> changed(segments.begin(), segments.end());
    change_(changed);
    return changed.empty() ? Status() : ForwardingBackend::forward(changed, logits, hidden);
  }

 private:
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
