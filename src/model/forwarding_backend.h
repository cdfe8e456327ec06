#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "model/backend.h"

namespace dovetail::model {

// Hands all calls on to another backend: for what changes some of them. Threads and errors are the
// other's.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string_view kernels() const override { return inner_->kernels(); }
  const CacheShape& cache_shape() const override { return inner_->cache_shape(); }
  Status forward(std::span<const Segment> segments, std::span<float> logits,
                 std::span<float> hidden) override {
    return inner_->forward(segments, logits, hidden);
  }
  Status logits(std::span<const float* const> hidden, std::span<float> logits) override {
    return inner_->logits(hidden, logits);
  }
  Status draft(std::span<const DraftRow> rows) override { return inner_->draft(rows); }
  std::vector<float> apply_head(std::vector<float> row) const override {
    return inner_->apply_head(std::move(row));
  }
  float score(std::span<const float> row) const override { return inner_->score(row); }
  void copy_blocks(std::span<const BlockCopy> copies) override { inner_->copy_blocks(copies); }
  void poison_blocks(std::span<const std::uint32_t> blocks) override {
    inner_->poison_blocks(blocks);
  }
  void poison_states(std::span<const std::uint32_t> slots) override {
    inner_->poison_states(slots);
  }
  void take_trace(observe::LaneLog& log) override { inner_->take_trace(log); }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace dovetail::model
