#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/cache_shape.h"
#include "model/share.h"
#include "observe/event_log.h"

namespace dovetail::model {

// A sequence's states are saved when so many of its positions are computed.
struct StateSave {
  std::uint32_t positions = 0;
  std::uint32_t saved = 0;  // of the cache's saved states
};

// Consecutive tokens of one sequence in one forward pass: a prefill chunk or a decode row. Its
// spans are the caller's, on the host, and stay as they are until the pass has ended.
struct Segment {
  std::span<const std::int32_t> tokens;  // ids in [0, vocab_size)
  std::uint32_t first_position = 0;      // of tokens[0]; everything before it is in the cache
  // [block][group of the cache]: covers first_position + tokens.size() positions. What lies behind
  // a group's window is not looked at.
  std::span<const std::uint32_t> block_table;
  std::uint32_t logit_rows = 0;  // of the last so many tokens
  bool decode = false;           // decode rows, which follow all prefill chunks
  std::uint32_t slot = 0;        // of the sequence's states, which are zeros before position 0
  Range hidden_rows = {};        // of these of its tokens, none of which has logits
  std::span<const StateSave> saves = {};  // within the segment, by positions, some at the same
  // The saved states that the slot begins with: those after first_position tokens. They are read
  // before any of the pass are saved.
  std::uint32_t load = kNoState;
  // From this position on tokens were generated, or are drafts, and are none of the prompt's:
  // latent attention has a formula for each. Which one a token gets depends on nothing else, so
  // that what is computed again has the bits that it had.
  std::uint32_t generated = kNoneGenerated;
  // The position with which the second text of a pair begins.
  std::uint32_t second = kNoSecond;
  // The token behind the last one, where it is known and the model drafts tokens.
  std::int32_t next = kNoToken;

  static constexpr std::uint32_t kNoState = 0xffffffff;
  static constexpr std::uint32_t kNoSecond = 0xffffffff;
  static constexpr std::uint32_t kNoneGenerated = 0xffffffff;
  static constexpr std::int32_t kNoToken = -1;
};

// A sequence that gets draft tokens from the layer that the model has for them.
struct DraftRow {
  std::uint32_t slot = 0;      // of a sequence with a segment in the last forward(),
  std::uint32_t row = 0;       // which of its rows with logits the token follows,
  std::uint32_t position = 0;  // and the position of that
  std::int32_t token = 0;
  // As Segment's; covers position + drafts.size() positions.
  std::span<const std::uint32_t> block_table;
  std::span<std::int32_t> drafts;  // the tokens behind `token`, to be written; at least one
};

// The bytes of a block of the cache, for another one.
struct BlockCopy {
  std::uint32_t from = 0, to = 0;
};

// What a backend is opened for.
struct BackendOptions {
  CacheShape cache;
  std::uint32_t blocks = 1;        // of each of the cache's groups
  std::uint32_t slots = 1;         // sequences that have states at a time
  std::uint32_t saved_states = 0;  // states that are kept for others
  // Draft tokens of a sequence at most, by the model's own layer; 0: it is not run. Else the cache
  // has that layer, too.
  std::uint32_t draft_tokens = 0;
  // The positions that a sequence may have, by which LongRoPE chooses its factors; 0: as many as
  // the model was made for.
  std::uint32_t context = 0;
};

// A model on a machine that computes: its weights, and the bytes of its cache. The step loop counts
// blocks, slots and saved states, and says which tokens a pass computes; a backend knows of each
// only its number, and decides how they are computed. Implementations have functions that open
// them, with what they need beside BackendOptions: cpu/cpu_backend.h.
//
// Every value of a token depends on that token's own sequence only, and is reduced in an order that
// depends on the model only: what shares a pass, how a prompt is cut into segments, and which
// blocks hold it leave no trace in the bits.
//
// One thread at a time, and nothing else during forward(); apply_head() and score() may be called
// by several threads at once. Which thread calls what may change from call to call.
class Backend {
 public:
  virtual ~Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // The instruction set, or the device, that it computes with; for people.
  virtual std::string_view kernels() const = 0;

  // The groups of its cache, and their bytes.
  virtual const CacheShape& cache_shape() const = 0;

  // Computes all segments, of which there is at least one, and returns when that is done: writes
  // their keys, values and states into the cache, the states that are to be saved, and on the host
  // logits [row][vocab_size] and hidden rows [row][hidden_size], both in the order of segments and
  // tokens. Segments belong to different sequences; a block that two of their tables name lies
  // wholly before both first positions. A segment of a model that looks in both directions is a
  // whole sequence. Blocks that no table names, and positions that a row may not see, may hold
  // anything. After an error, kInternal, the cache may hold anything.
  virtual Status forward(std::span<const Segment> segments, std::span<float> logits,
                         std::span<float> hidden) = 0;

  // What rows that forward() gave as hidden rows would have had as logits, bit for bit:
  // [row][vocab_size]. Errors as forward()'s.
  virtual Status logits(std::span<const float* const> hidden, std::span<float> logits) = 0;

  // Draft tokens of sequences, by the model's own layer: the likeliest, one after the other.
  // Requires BackendOptions::draft_tokens. Errors as forward()'s.
  virtual Status draft(std::span<const DraftRow> rows) = 0;

  // What stands behind a sequence's pooled row of hidden_size floats: embedding_size() of them; and
  // of these, where the model ranks, the score.
  virtual std::vector<float> apply_head(std::vector<float> row) const = 0;
  virtual float score(std::span<const float> row) const = 0;

  // Gives blocks what others hold, one after the other: contexts that nothing computed, to measure
  // with.
  virtual void copy_blocks(std::span<const BlockCopy> copies) = 0;

  // Fills blocks, or the states of slots, with NaN, so that reading what was never written shows.
  virtual void poison_blocks(std::span<const std::uint32_t> blocks) = 0;
  virtual void poison_states(std::span<const std::uint32_t> slots) = 0;

  // Writes what its lanes did in the last forward(), logits() or draft() to the log, if it was
  // opened to keep that; times as EventLog's. To be called once, right after that.
  virtual void take_trace(observe::LaneLog& log) = 0;

 protected:
  Backend() = default;
};

}  // namespace dovetail::model
