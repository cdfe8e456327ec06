#include "model/blocks/indexer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "base/aligned_buffer.h"
#include "model/mutation.h"

namespace dovetail::model {
namespace {

// Entries whose scores are made together.
constexpr std::uint32_t kScoresTogether = 256;

// Rows of a sequence that share what is loaded of its keys, at most: all of their scores are kept.
constexpr std::uint32_t kRowsTogether = 8;

constexpr kernels::DataType kIndexType = kernels::DataType::kF32;

// What a thread keeps between the parts of its tasks.
struct IndexScratch {
  std::vector<float> keys, query, products, scores;
  AlignedBuffer prepared;
};

IndexScratch& index_scratch() {
  thread_local IndexScratch mine;
  return mine;
}

constexpr std::uint32_t parts_of(std::uint32_t entries) {
  return (entries + kScoresTogether - 1) / kScoresTogether;
}

// A whole number that is larger where a score is, and the same for both zeros.
std::uint32_t rank_of(float score) {
  if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
  const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  return bits ^ (bits >> 31U != 0 ? 0xffffffffU : 0x80000000U);
}

}  // namespace

std::uint32_t entries_seen(const Pass& pass, const PassRow& row, std::uint32_t ratio) {
  if (mutated(Mutant::kEntriesOfAll)) {
    const Segment& segment = pass.segments()[row.segment];
    const auto rows = static_cast<std::uint32_t>(segment.tokens.size());
    return entries_seen(segment.first_position + rows - 1, ratio);
  }
  return entries_seen(row.position, ratio);
}

void pick_entries(std::span<const float> scores, std::size_t count, std::uint32_t* picks) {
  assert(count <= scores.size());
  thread_local std::vector<std::uint32_t> ranks, near;
  ranks.resize(scores.size());
  std::transform(scores.begin(), scores.end(), ranks.begin(), rank_of);
  // The count-th largest rank, byte after byte from the highest on: `near` are those that begin
  // with the bytes that are known, of which the `left`-th largest is looked for.
  near = ranks;
  std::uint32_t least = 0;
  std::size_t left = count;
  for (int shift = 24; shift >= 0; shift -= 8) {
    std::array<std::uint32_t, 256> of_byte = {};
    for (const std::uint32_t rank : near) ++of_byte[rank >> shift & 255U];
    std::uint32_t byte = 255;
    while (of_byte[byte] < left) left -= of_byte[byte--];
    least |= byte << shift;
    std::size_t kept = 0;
    for (const std::uint32_t rank : near) {
      near[kept] = rank;
      kept += (rank >> shift & 255U) == byte ? 1 : 0;
    }
    near.resize(kept);
  }
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] < least || (ranks[i] == least && left == 0)) continue;
    if (ranks[i] == least) --left;
    *picks++ = i;
  }
}

void PickedEntries::lay_out(const Pass& pass) {
  if (top_ == 0) return;
  grow(picks_, pass.rows().size() * top_);
  grow(first_score_, pass.rows().size());
  std::size_t scores = 0;
  for (const RowTile& tile : pass.tiles()) {
    if (!shares(tile)) continue;
    for (std::uint32_t row = tile.rows.begin; row < tile.rows.end; ++row) {
      first_score_[row] = scores;
      scores += entries_seen(pass.rows()[row].position, ratio_);
    }
  }
  grow(scores_, scores);
}

Indexer::Indexer(std::uint32_t heads, std::uint32_t dim, std::uint32_t top, RowSet set,
                 Entries entries, PickedEntries& picked, Workspace& workspace)
    : work_(workspace),
      heads_(heads),
      dim_(dim),
      top_(top),
      set_(set),
      entries_(std::move(entries)),
      picked_(picked) {
  workspace.shared.need(std::size_t{heads} * dim);
  workspace.shared_gate.need(heads);
}

std::uint32_t Indexer::longest(const RowTile& tile) const {
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < work_.count(set_, tile); ++i)
    most = std::max(most, entries_.seen(work_.pass.rows()[work_.row(set_, tile, i)]));
  return most;
}

// The scores of entries, where lanes share those of a row, and the picks.
void Indexer::add_steps(Program& program) {
  const auto rows = [this](std::uint32_t tile) { return work_.count(set_, work_.tile(tile)); };
  const std::size_t all_heads = std::size_t{heads_} * dim_;
  program.add(
      {.name = "index-scores",
       .matrix = true,
       .keys = KeysAccess::kRead,
       .run =
           [this, rows](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
             const RowTile& tile = work_.tile(index);
             if (!picked_.shares(tile)) return;
             const std::uint32_t parts = parts_of(longest(tile));
             score(tile, part_of(std::size_t{rows(index)} * parts, part.block, blocks), parts);
           }},
      [this, rows, all_heads](std::uint32_t index) {
        const RowTile& tile = work_.tile(index);
        if (!picked_.shares(tile)) return 1U;
        const std::size_t parts = parts_of(longest(tile));
        return work_.share(tile, rows(index) * parts,
                           std::size_t{rows(index)} * longest(tile) * all_heads);
      });
  program.add(
      {.name = "index-pick",
       .run =
           [this, rows](std::uint32_t index, std::uint32_t blocks, const cores::Part& part) {
             pick(work_.tile(index), part_of(rows(index), part.block, blocks));
           }},
      [this, rows, all_heads](std::uint32_t index) {
        const RowTile& tile = work_.tile(index);
        const std::size_t each =
            longest(tile) * (picked_.shares(tile) ? std::size_t{8} : all_heads);
        return work_.share(tile, rows(index), rows(index) * each);
      });
}

// Items: parts of the entries that each row sees.
void Indexer::score(const RowTile& tile, const Range& items, std::uint32_t parts) {
  std::uint32_t turned = std::numeric_limits<std::uint32_t>::max();
  for (std::uint32_t item = items.begin; item < items.end; ++item) {
    const std::uint32_t row = work_.row(set_, tile, item / parts);
    const PassRow& of = work_.pass.rows()[row];
    const std::uint32_t count = entries_.seen(of);
    const std::uint32_t first = item % parts * kScoresTogether;
    if (!chooses(of) || first >= count) continue;
    const std::uint32_t end = std::min(count, first + kScoresTogether);
    if (row != turned) turn_queries(tile, row, 0);
    turned = row;
    load_keys(of, first, end);
    score(tile, row, 0, end - first, picked_.scores(row) + first);
  }
}

// A row's queries, as the `number`-th that the thread keeps.
void Indexer::turn_queries(const RowTile& tile, std::uint32_t row, std::size_t number) {
  const std::uint32_t index = row - tile.rows.begin;
  IndexScratch& mine = index_scratch();
  const std::size_t bytes = work_.kernels.activation_bytes(kIndexType, dim_);
  mine.prepared.reserve(kRowsTogether * heads_ * bytes);
  mine.query.resize(dim_);
  for (std::size_t head = 0; head < heads_; ++head) {
    std::copy_n(work_.shared.row(tile, index, std::size_t{heads_} * dim_) + head * dim_, dim_,
                mine.query.data());
    entries_.turn(work_.pass.rows()[row].position, mine.query.data());
    work_.kernels.prepare(kIndexType, mine.query.data(), dim_,
                          mine.prepared.data() + (number * heads_ + head) * bytes);
  }
}

void Indexer::load_keys(const PassRow& row, std::uint32_t first, std::uint32_t end) {
  std::vector<float>& keys = index_scratch().keys;
  grow(keys, std::size_t{end - first} * dim_);
  entries_.load(work_.pass.segments()[row.segment], first, end, keys.data());
}

// Of the first `count` entries that load_keys() took, for a row whose queries are the `number`-th.
void Indexer::score(const RowTile& tile, std::uint32_t row, std::size_t number, std::size_t count,
                    float* out) {
  const kernels::Kernels& kernels = work_.kernels;
  const std::uint32_t index = row - tile.rows.begin;
  const std::size_t bytes = kernels.activation_bytes(kIndexType, dim_);
  IndexScratch& mine = index_scratch();
  grow(mine.products, heads_ * count);
  kernels::MatmulArgs args;
  args.type = kIndexType;
  args.weights = reinterpret_cast<const std::byte*>(mine.keys.data());
  args.activations = mine.prepared.data() + number * heads_ * bytes;
  args.activation_stride = bytes;
  args.output = mine.products.data();
  args.output_stride = count;
  args.m = heads_;
  args.k = dim_;
  args.n_end = count;
  kernels.matmul(args);
  const float* weights = work_.shared_gate.row(tile, index, heads_);
  const float scale = 1.0F / std::sqrt(static_cast<float>(std::size_t{dim_} * heads_));
  std::fill_n(out, count, 0.0F);
  for (std::size_t head = 0; head < heads_; ++head) {
    const float* product = mine.products.data() + head * count;
    const float weight = weights[head] * scale;
    for (std::size_t i = 0; i < count; ++i) out[i] += weight * std::max(product[i], 0.0F);
  }
}

void Indexer::pick(const RowTile& tile, const Range& rows) {
  const auto row = [&](std::uint32_t i) -> const PassRow& {
    return work_.pass.rows()[work_.row(set_, tile, i)];
  };
  if (picked_.shares(tile)) {
    for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
      const std::uint32_t number = work_.row(set_, tile, i);
      if (!chooses(row(i))) continue;
      pick_entries({picked_.scores(number), entries_.seen(row(i))}, top_, picked_.picks(number));
    }
    return;
  }
  Range some = rows;
  for (; some.begin < rows.end; some.begin = some.end) {
    const std::uint32_t most = std::min(rows.end, some.begin + kRowsTogether);
    some.end = some.begin + 1;
    while (some.end < most && row(some.end).segment == row(some.begin).segment) ++some.end;
    score_and_pick(tile, some);
  }
}

// Rows of one sequence, kRowsTogether at most.
void Indexer::score_and_pick(const RowTile& tile, const Range& rows) {
  std::array<std::uint32_t, kRowsTogether> choosers;
  std::size_t count = 0;
  std::uint32_t most = 0;
  const auto of = [&](std::size_t i) -> const PassRow& { return work_.pass.rows()[choosers[i]]; };
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    choosers[count] = work_.row(set_, tile, i);
    if (!chooses(of(count))) continue;
    most = std::max(most, entries_.seen(of(count)));
    turn_queries(tile, choosers[count], count);
    ++count;
  }
  std::vector<float>& scores = index_scratch().scores;
  grow(scores, count * most);
  for (std::uint32_t first = 0; first < most; first += kScoresTogether) {
    load_keys(of(0), first, std::min(most, first + kScoresTogether));
    for (std::size_t i = 0; i < count; ++i) {
      if (const std::uint32_t seen = entries_.seen(of(i)); first < seen)
        score(tile, choosers[i], i, std::min(seen - first, kScoresTogether),
              scores.data() + i * most + first);
    }
  }
  for (std::size_t i = 0; i < count; ++i)
    pick_entries({scores.data() + i * most, entries_.seen(of(i))}, top_,
                 picked_.picks(choosers[i]));
}

}  // namespace dovetail::model
