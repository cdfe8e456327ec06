#include "model/blocks/indexer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/aligned_buffer.h"
#include "model/mutation.h"

namespace dovetail::model {
namespace {

// Entries whose scores are made together.
constexpr std::uint32_t kScoresTogether = 1024;

// What a thread keeps between the parts of its tasks.
struct IndexScratch {
  std::vector<float> keys, query, products, scores;
  AlignedBuffer prepared;
};

IndexScratch& index_scratch() {
  thread_local IndexScratch mine;
  return mine;
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

void pick_entries(std::span<float> scores, std::size_t count, std::uint32_t* picks) {
  assert(count <= scores.size());
  for (float& score : scores)
    if (std::isnan(score)) score = -std::numeric_limits<float>::infinity();
  thread_local std::vector<std::uint32_t> order;
  order.resize(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto border = order.begin() + static_cast<std::ptrdiff_t>(count);
  if (border != order.end()) {
    std::nth_element(order.begin(), border, order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    });
  }
  std::sort(order.begin(), border);
  std::copy(order.begin(), border, picks);
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
             const std::uint32_t parts = longest(tile) / kScoresTogether + 1;
             score(tile, part_of(std::size_t{rows(index)} * parts, part.block, blocks), parts);
           }},
      [this, rows, all_heads](std::uint32_t index) {
        const RowTile& tile = work_.tile(index);
        if (!picked_.shares(tile)) return 1U;
        const std::size_t parts = longest(tile) / kScoresTogether + 1;
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
  for (std::uint32_t item = items.begin; item < items.end; ++item) {
    const std::uint32_t row = work_.row(set_, tile, item / parts);
    const PassRow& of = work_.pass.rows()[row];
    const std::uint32_t count = entries_.seen(of);
    const std::uint32_t first = item % parts * kScoresTogether;
    if (!chooses(of) || first >= count) continue;
    score(tile, row, first, std::min(count, first + kScoresTogether), picked_.scores(row) + first);
  }
}

void Indexer::score(const RowTile& tile, std::uint32_t row, std::uint32_t first, std::uint32_t end,
                    float* out) {
  const kernels::Kernels& kernels = work_.kernels;
  const PassRow& of = work_.pass.rows()[row];
  const std::uint32_t index = row - tile.rows.begin;
  const std::size_t count = end - first;
  IndexScratch& mine = index_scratch();
  constexpr kernels::DataType kFloats = kernels::DataType::kF32;
  const std::size_t bytes = kernels.activation_bytes(kFloats, dim_);
  mine.prepared.reserve(heads_ * bytes);
  mine.query.resize(dim_);
  for (std::size_t head = 0; head < heads_; ++head) {
    std::copy_n(work_.shared.row(tile, index, std::size_t{heads_} * dim_) + head * dim_, dim_,
                mine.query.data());
    entries_.turn(of.position, mine.query.data());
    kernels.prepare(kFloats, mine.query.data(), dim_, mine.prepared.data() + head * bytes);
  }
  grow(mine.keys, count * dim_);
  entries_.load(work_.pass.segments()[of.segment], first, end, mine.keys.data());
  grow(mine.products, heads_ * count);
  kernels::MatmulArgs args;
  args.type = kFloats;
  args.weights = reinterpret_cast<const std::byte*>(mine.keys.data());
  args.activations = mine.prepared.data();
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
  for (std::uint32_t i = rows.begin; i < rows.end; ++i) {
    const std::uint32_t row = work_.row(set_, tile, i);
    const PassRow& of = work_.pass.rows()[row];
    if (!chooses(of)) continue;
    const std::uint32_t count = entries_.seen(of);
    float* scores = nullptr;
    if (picked_.shares(tile)) {
      scores = picked_.scores(row);
    } else {
      std::vector<float>& mine = index_scratch().scores;
      grow(mine, count);
      scores = mine.data();
      for (std::uint32_t first = 0; first < count; first += kScoresTogether)
        score(tile, row, first, std::min(count, first + kScoresTogether), scores + first);
    }
    pick_entries({scores, count}, top_, picked_.picks(row));
  }
}

}  // namespace dovetail::model
