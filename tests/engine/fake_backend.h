#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/step_loop.h"
#include "load/model_source.h"
#include "model/backend.h"

namespace dovetail::test {

// What layers a fake model has.
struct FakeModelOptions {
  std::vector<std::uint32_t> windows = {0};  // of a layer with attention each; none in 1..7
  bool states = false;                       // a layer with a state as well
  load::Pooling pooling = load::Pooling::kNone;
  bool drafts = false;   // a layer that drafts tokens
  bool latents = false;  // in place of keys and values
};

// A model without weights, of 1000 tokens; the last of them says that something was wrong.
std::shared_ptr<const load::ModelSource> fake_model(const FakeModelOptions& options = {});
inline constexpr std::uint32_t kFakeVocabulary = 1000;
inline constexpr TokenId kWrongToken = kFakeVocabulary - 1;

// The token that follows these: the one that stood six places before it, or, one time in eight, one
// that depends on all of them, so that draft tokens are often right and never always.
TokenId fake_next(std::span<const TokenId> tokens);

// So many tokens that follow these, one after the other.
std::vector<TokenId> fake_answer(std::span<const TokenId> prompt, std::size_t count);

// A backend that computes fake_next() from what its cache holds. Each position leaves a cell in
// each group of the cache, with its token, its place and a digest of all tokens before it; a state
// has the same of its sequence. A row reads all that it may see through its block table, and where
// a cell is another's, is poisoned or does not follow from the one before, the token is
// kWrongToken, and fault() says where. Logits are 1 for the token that follows and 0 for all
// others; a hidden row is {1, its position, its token, Segment::second or -1, the token that
// follows}, and the score of a pooled row its position.
class FakeBackend : public model::Backend {
 public:
  FakeBackend(model::BackendOptions options, std::size_t hidden_size);

  std::string_view kernels() const override { return "fake"; }
  const model::CacheShape& cache_shape() const override { return options_.cache; }
  Status forward(std::span<const model::Segment> segments, std::span<float> logits,
                 std::span<float> hidden) override;
  Status logits(std::span<const float* const> hidden, std::span<float> logits) override;
  // What fake_next() gives most of the time.
  Status draft(std::span<const model::DraftRow> rows) override;
  std::vector<float> apply_head(std::vector<float> row) const override { return row; }
  float score(std::span<const float> row) const override { return row[1]; }
  void copy_blocks(std::span<const model::BlockCopy> copies) override;
  void poison_blocks(std::span<const std::uint32_t> blocks) override;
  void poison_states(std::span<const std::uint32_t> slots) override;
  // A slice for each pass.
  void take_trace(observe::LaneLog& log) override;

  // Between passes. The first thing that was wrong in what it was given or read; empty: nothing.
  const std::string& fault() const { return fault_; }
  std::uint32_t passes() const { return passes_; }
  std::uint32_t loads() const { return loads_; }    // of saved states
  std::uint32_t drafts() const { return drafts_; }  // calls

  // Called in each pass, before it computes: its status is the pass's.
  std::function<Status()> during;

 private:
  struct Cell {
    TokenId token = -1;  // -1: poison, or never written
    std::uint32_t position = 0;
    std::size_t group = 0;
    bool generated = false;  // where the cache tells
    std::uint64_t digest = 0;
  };
  // Of all tokens of a sequence so far; not valid: poison, or never written.
  struct State {
    bool valid = false;
    std::vector<TokenId> tokens;
  };

  Cell* at(const model::Segment& segment, std::size_t group, std::uint32_t position);
  void check(std::span<const model::Segment> segments, std::size_t logits, std::size_t hidden);
  TokenId compute(const model::Segment& segment, std::size_t index);
  std::uint64_t digest_before(const model::Segment& segment, std::uint32_t position, bool& whole);
  template <class... Args>
  void note(const model::Segment& segment, std::uint32_t position,
            fmt::format_string<Args...> format, Args&&... args);

  model::BackendOptions options_;
  std::size_t hidden_size_;
  std::vector<Cell> cells_;    // [block][position in it]
  std::vector<State> states_;  // by slot
  std::vector<State> saved_;
  std::string fault_;
  std::uint32_t passes_ = 0, loads_ = 0, drafts_ = 0;
  // By slot: what the last pass had.
  struct Last {
    std::uint32_t end = 0;   // position behind its tokens
    std::uint32_t rows = 0;  // with logits
  };
  std::vector<Last> last_;
  std::atomic<bool> busy_ = false;
};

// Opens a fake, and says which one. It lives as long as its loop.
engine::OpenBackend open_fake(FakeBackend*& opened);

}  // namespace dovetail::test
