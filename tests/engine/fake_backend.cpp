#include "engine/fake_backend.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

namespace dovetail::test {
namespace {

constexpr std::uint32_t kPeriod = 6;
constexpr std::size_t kHiddenSize = 5;
constexpr auto kBlock = static_cast<std::uint32_t>(kernels::kBlockSize);

std::uint64_t mix(std::uint64_t digest, TokenId token, std::uint32_t position) {
  digest ^= static_cast<std::uint64_t>(token) << 32 | position;
  digest = (digest ^ digest >> 33) * 0xff51afd7ed558ccdULL;
  return (digest ^ digest >> 29) * 0xc4ceb9fe1a85ec53ULL;
}

std::uint64_t digest_of(std::span<const TokenId> tokens) {
  std::uint64_t digest = 0;
  for (std::uint32_t i = 0; i < tokens.size(); ++i) digest = mix(digest, tokens[i], i);
  return digest;
}

bool is_fresh(std::uint64_t digest) { return digest >> 61 == 0; }
TokenId fresh(std::uint64_t digest) { return static_cast<TokenId>(digest % kWrongToken); }

}  // namespace

std::shared_ptr<const load::ModelSource> fake_model(const FakeModelOptions& options) {
  auto source = std::make_shared<load::ModelSource>();
  load::ModelConfig& config = source->config;
  config.vocab_size = kFakeVocabulary;
  config.hidden_size = kHiddenSize;
  config.max_context = 512;
  config.pooling = options.pooling;
  for (const std::uint32_t window : options.windows) {
    load::AttentionConfig attention;
    attention.heads = attention.kv_heads = 1;
    attention.head_dim = 16;
    attention.window = window;
    load::LayerConfig layer;
    layer.mixer = attention;
    if (options.latents) {
      load::LatentConfig latent;
      latent.heads = 1;
      latent.latent_dim = 16;
      layer.mixer = latent;
    }
    config.layers.push_back(layer);
  }
  if (options.states) {
    load::ShortConvConfig convolution;
    convolution.channels = 4;
    load::LayerConfig layer;
    layer.mixer = convolution;
    config.layers.push_back(layer);
  }
  if (options.drafts) config.draft_layer = config.layers.front();
  source->tensors["token_embd.weight"] = {};
  return source;
}

TokenId fake_next(std::span<const TokenId> tokens) {
  const std::uint64_t digest = digest_of(tokens);
  if (tokens.size() < kPeriod || is_fresh(digest)) return fresh(digest);
  return tokens[tokens.size() - kPeriod];
}

std::vector<TokenId> fake_answer(std::span<const TokenId> prompt, std::size_t count) {
  std::vector<TokenId> tokens(prompt.begin(), prompt.end());
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(fake_next(tokens));
  return {tokens.end() - static_cast<std::ptrdiff_t>(count), tokens.end()};
}

FakeBackend::FakeBackend(model::BackendOptions options, std::size_t hidden_size)
    : options_(std::move(options)),
      hidden_size_(hidden_size),
      cells_(std::size_t{options_.blocks} * options_.cache.groups() * kBlock),
      states_(options_.slots),
      saved_(options_.saved_states),
      last_(options_.slots) {}

template <class... Args>
void FakeBackend::note(const model::Segment& segment, std::uint32_t position,
                       fmt::format_string<Args...> format, Args&&... args) {
  if (!fault_.empty()) return;
  fault_ = fmt::format("pass {}, slot {}, position {}: {}", passes_, segment.slot, position,
                       fmt::format(format, std::forward<Args>(args)...));
}

FakeBackend::Cell* FakeBackend::at(const model::Segment& segment, std::size_t group,
                                   std::uint32_t position) {
  const std::uint32_t block =
      segment.block_table[position / kBlock * options_.cache.groups() + group];
  const std::size_t index = std::size_t{block} * kBlock + position % kBlock;
  return index < cells_.size() ? &cells_[index] : nullptr;
}

// What a backend may rely on.
void FakeBackend::check(std::span<const model::Segment> segments, std::size_t logits,
                        std::size_t hidden) {
  std::set<std::uint32_t> slots;
  std::size_t logit_rows = 0, hidden_rows = 0;
  bool decodes = false;
  if (segments.empty()) fault_ = "a pass without segments";
  for (const model::Segment& segment : segments) {
    const std::uint32_t first = segment.first_position;
    const std::size_t end = first + segment.tokens.size();
    logit_rows += segment.logit_rows;
    hidden_rows += segment.hidden_rows.size();
    if (segment.tokens.empty()) note(segment, first, "no tokens");
    for (const TokenId token : segment.tokens) {
      if (token < 0 || token >= kWrongToken) note(segment, first, "token {}", token);
    }
    if (segment.block_table.size() / options_.cache.groups() * kBlock < end)
      note(segment, first, "its table does not reach position {}", end);
    if (segment.logit_rows > segment.tokens.size() ||
        segment.hidden_rows.end > segment.tokens.size() ||
        segment.hidden_rows.end + segment.logit_rows > segment.tokens.size())
      note(segment, first, "outputs that it has no tokens for");
    if (segment.slot >= options_.slots || !slots.insert(segment.slot).second)
      note(segment, first, "its slot is another's as well");
    if (decodes && !segment.decode) note(segment, first, "a prefill chunk behind decode rows");
    decodes = segment.decode;
    std::uint32_t before = first;
    for (const model::StateSave& save : segment.saves) {
      if (save.positions <= first || save.positions < before || save.positions > end ||
          save.saved >= saved_.size())
        note(segment, first, "it saves states after {} tokens", save.positions);
      before = save.positions;
    }
  }
  if (logits != logit_rows * kFakeVocabulary || hidden != hidden_rows * hidden_size_)
    fault_ = "no room for the outputs, or too much";
}

// The digest of the tokens before a position, as every group that sees them has it, and the state.
std::uint64_t FakeBackend::digest_before(const model::Segment& segment, std::uint32_t position,
                                         bool& whole) {
  std::uint64_t digest = 0;
  const auto broken = [&]<class... Args>(fmt::format_string<Args...> format, Args&&... args) {
    whole = false;
    note(segment, position, format, std::forward<Args>(args)...);
  };
  const auto windows = options_.cache.windows();
  for (std::size_t group = 0; whole && group < windows.size(); ++group) {
    const std::uint32_t window = windows[group];
    const std::uint32_t from = window == 0 || position < window ? 0 : position - window + 1;
    std::uint64_t chain = 0;
    for (std::uint32_t seen = from; whole && seen < position; ++seen) {
      const Cell* cell = at(segment, group, seen);
      if (cell == nullptr) {
        broken("group {} has no block for position {}", group, seen);
      } else if (cell->token < 0 || cell->position != seen || cell->group != group) {
        broken("position {} of group {} holds token {} of position {} and group {}", seen, group,
               cell->token, cell->position, cell->group);
      } else if (options_.cache.tells_generated() &&
                 cell->generated != (seen >= segment.generated)) {
        broken("position {} of group {} was computed as one that was {}generated", seen, group,
               cell->generated ? "" : "not ");
      } else if ((seen > from || from == 0) &&
                 cell->digest != mix(chain, cell->token, cell->position)) {
        broken("token {} at position {} of group {} does not follow from those before it",
               cell->token, seen, group);
      } else {
        chain = cell->digest;
      }
    }
    if (whole && group > 0 && chain != digest) broken("group {} has another text", group);
    digest = chain;
  }
  if (whole && options_.cache.state_floats() > 0) {
    const State& state = states_[segment.slot];
    if (!state.valid || state.tokens.size() != position) {
      broken("the state is that of {} tokens", state.valid ? state.tokens.size() : 0);
    } else if (digest_of(state.tokens) != digest) {
      broken("the state is that of another text");
    }
  }
  return digest;
}

// Takes the segment's token of this index in, and gives what follows it.
TokenId FakeBackend::compute(const model::Segment& segment, std::size_t index) {
  const TokenId token = segment.tokens[index];
  const std::uint32_t position = segment.first_position + static_cast<std::uint32_t>(index);
  State& state = states_[segment.slot];
  if (position == 0) state = {true, {}};
  bool whole = true;
  const std::uint64_t digest = mix(digest_before(segment, position, whole), token, position);
  for (std::size_t group = 0; group < options_.cache.groups(); ++group) {
    if (Cell* cell = at(segment, group, position)) {
      *cell = {token, position, group, position >= segment.generated, digest};
    } else {
      whole = false;
      note(segment, position, "group {} has no block for it", group);
    }
  }
  state.tokens.push_back(token);
  for (const model::StateSave& save : segment.saves) {
    if (save.positions == position + 1) saved_[save.saved] = state;
  }
  if (!whole) return kWrongToken;
  if (position + 1 < kPeriod || is_fresh(digest)) return fresh(digest);
  return at(segment, 0, position + 1 - kPeriod)->token;
}

Status FakeBackend::forward(std::span<const model::Segment> segments, std::span<float> logits,
                            std::span<float> hidden) {
  if (busy_.exchange(true)) fault_ = "two passes at once";
  ++passes_;
  check(segments, logits.size(), hidden.size());
  Status status = during ? during() : Status();
  for (const model::Segment& segment : segments) {
    if (segment.load == model::Segment::kNoState) continue;
    ++loads_;
    states_[segment.slot] = saved_.at(segment.load);
  }
  for (const model::Segment& segment : segments) {
    const auto end = static_cast<std::uint32_t>(segment.first_position + segment.tokens.size());
    last_[segment.slot] = {end, segment.logit_rows};
  }
  std::fill(logits.begin(), logits.end(), 0.0F);
  for (const model::Segment& segment : segments) {
    for (std::size_t i = 0; status && i < segment.tokens.size(); ++i) {
      const TokenId next = compute(segment, i);
      if (i + segment.logit_rows >= segment.tokens.size()) {
        logits[static_cast<std::size_t>(next)] = 1.0F;
        logits = logits.subspan(kFakeVocabulary);
      }
      if (i >= segment.hidden_rows.begin && i < segment.hidden_rows.end) {
        hidden[0] = 1.0F;
        hidden[1] = static_cast<float>(segment.first_position + i);
        hidden[2] = static_cast<float>(next == kWrongToken ? next : segment.tokens[i]);
        hidden[3] = segment.second == model::Segment::kNoSecond
                        ? -1.0F
                        : static_cast<float>(segment.second);
        hidden[4] = static_cast<float>(next);
        hidden = hidden.subspan(hidden_size_);
      }
    }
  }
  busy_ = false;
  return status;
}

Status FakeBackend::logits(std::span<const float* const> hidden, std::span<float> logits) {
  if (busy_.exchange(true)) fault_ = "logits during a pass";
  if (logits.size() != hidden.size() * kFakeVocabulary) fault_ = "no room for logits, or too much";
  std::fill(logits.begin(), logits.end(), 0.0F);
  for (std::size_t i = 0; i < hidden.size(); ++i)
    logits[i * kFakeVocabulary + static_cast<std::size_t>(hidden[i][4])] = 1.0F;
  busy_ = false;
  return {};
}

Status FakeBackend::draft(std::span<const model::DraftRow> rows) {
  if (busy_.exchange(true)) fault_ = "drafts during a pass";
  ++drafts_;
  std::set<std::uint32_t> slots;
  for (const model::DraftRow& row : rows) {
    model::Segment segment;
    segment.slot = row.slot;
    segment.block_table = row.block_table;
    const Last& last = last_.at(row.slot);
    if (!slots.insert(row.slot).second) note(segment, row.position, "its slot drafts twice");
    if (row.row >= last.rows || row.position != last.end - last.rows + row.row)
      note(segment, row.position, "row {} of {} before position {}", row.row, last.rows, last.end);
    if (row.drafts.empty() || row.drafts.size() > options_.draft_tokens)
      note(segment, row.position, "{} draft tokens", row.drafts.size());
    if (row.block_table.size() / options_.cache.groups() * kBlock <
        row.position + row.drafts.size())
      note(segment, row.position, "its table is too short for {}", row.drafts.size());
    // The tokens before, as far back as they repeat, and then the drafts.
    std::vector<TokenId> tokens;
    const std::uint32_t from = row.position < kPeriod ? 0 : row.position - kPeriod;
    for (std::uint32_t position = from; position <= row.position; ++position) {
      const Cell* cell = at(segment, 0, position);
      if (cell == nullptr || cell->token < 0 || cell->position != position) {
        note(segment, position, "a draft reads what is not there");
        continue;
      }
      tokens.push_back(cell->token);
    }
    tokens.push_back(row.token);
    for (TokenId& draft : row.drafts) {
      draft = tokens.size() < kPeriod ? 0 : tokens[tokens.size() - kPeriod];
      tokens.push_back(draft);
    }
  }
  busy_ = false;
  return {};
}

void FakeBackend::copy_blocks(std::span<const model::BlockCopy> copies) {
  for (const auto [from, to] : copies)
    std::copy_n(cells_.begin() + static_cast<std::ptrdiff_t>(std::size_t{from} * kBlock), kBlock,
                cells_.begin() + static_cast<std::ptrdiff_t>(std::size_t{to} * kBlock));
}

void FakeBackend::poison_blocks(std::span<const std::uint32_t> blocks) {
  if (busy_) fault_ = "blocks are poisoned during a pass";
  for (const std::uint32_t block : blocks)
    std::fill_n(cells_.begin() + static_cast<std::ptrdiff_t>(std::size_t{block} * kBlock), kBlock,
                Cell());
}

void FakeBackend::poison_states(std::span<const std::uint32_t> slots) {
  for (const std::uint32_t slot : slots) states_.at(slot) = {};
}

void FakeBackend::take_trace(observe::LaneLog& log) {
  observe::LaneSlice slice;
  slice.task = "fake";
  slice.tile = passes_;
  log.write(slice);
}

engine::OpenBackend open_fake(FakeBackend*& opened) {
  return [&opened](const auto& source, const engine::ResolvedOptions& resolved,
                   cores::Executor&) -> Result<std::unique_ptr<model::Backend>> {
    auto fake = std::make_unique<FakeBackend>(engine::backend_options(resolved),
                                              source->config.hidden_size);
    opened = fake.get();
    return fake;
  };
}

}  // namespace dovetail::test
