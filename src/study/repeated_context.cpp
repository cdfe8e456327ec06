#include "study/repeated_context.h"

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cache_type.h"
#include "model/forwarding_backend.h"

namespace dovetail::study {
namespace {

constexpr auto kBlock = static_cast<std::uint32_t>(kernels::kBlockSize);
// Blocks that are copied, again and again: the second half of what is computed, as entries in
// slices begin behind their own positions. Entries of up to so many positions stay where they lie.
constexpr std::uint32_t kRepeated = kComputedContext / 2 / kBlock;

class RepeatedContext : public model::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  Status forward(std::span<const model::Segment> segments, std::span<float> logits,
                 std::span<float> hidden) override {
    shortened_.assign(segments.begin(), segments.end());
    copies_.clear();
    for (model::Segment& segment : shortened_) shorten(segment);
    copy_blocks(copies_);
    return ForwardingBackend::forward(shortened_, logits, hidden);
  }

 private:
  // To its last blocks, the last whole one among them: there the prompt's states are saved.
  void shorten(model::Segment& segment) {
    if (segment.decode || segment.first_position < kComputedContext) return;
    if (segment.hidden_rows.size() > 0) return;
    const auto tokens = static_cast<std::uint32_t>(segment.tokens.size());
    const std::uint32_t last = (segment.first_position + tokens - 1) / kBlock;
    const std::uint32_t first = (last - 1) * kBlock;
    if (first <= segment.first_position) return;
    const std::uint32_t left_out = first - segment.first_position;
    if (segment.logit_rows > tokens - left_out) return;
    copy(segment, segment.first_position / kBlock, first / kBlock);
    segment.tokens = segment.tokens.subspan(left_out);
    segment.first_position = first;
    while (!segment.saves.empty() && segment.saves.front().positions <= first)
      segment.saves = segment.saves.subspan(1);
  }

  // Blocks of all groups, from those computed; those of a window are gone, but for what is before
  // the chunk.
  void copy(const model::Segment& segment, std::uint32_t begin, std::uint32_t end) {
    const std::span<const std::uint32_t> windows = cache_shape().windows();
    for (std::uint32_t block = begin; block < end; ++block) {
      for (std::size_t group = 0; group < windows.size(); ++group) {
        const auto at = [&](std::uint32_t of) {
          return segment.block_table[of * windows.size() + group];
        };
        if (windows[group] == 0) {
          copies_.push_back({at(kRepeated + block % kRepeated), at(block)});
        } else if (windows[group] > 1) {
          copies_.push_back({at(begin - 1), at(block)});
        }
      }
    }
  }

  std::vector<model::Segment> shortened_;
  std::vector<model::BlockCopy> copies_;
};

}  // namespace

engine::OpenBackend repeat_contexts(engine::OpenBackend inner) {
  return
      [inner = std::move(inner)](
          std::shared_ptr<const load::ModelSource> source, const engine::ResolvedOptions& resolved,
          cores::Executor& executor) -> Result<std::unique_ptr<model::Backend>> {
        auto opened = inner(std::move(source), resolved, executor);
        if (!opened) return fail(opened.error());
        return std::make_unique<RepeatedContext>(*std::move(opened));
      };
}

}  // namespace dovetail::study
