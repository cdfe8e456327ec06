#include "kv/prefix_index.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

namespace dovetail::kv {

BlockHash root_hash(std::span<const std::byte> salt) {
  const XXH128_hash_t hash = XXH3_128bits(salt.data(), salt.size());
  return {hash.low64, hash.high64};
}

BlockHash chain_hash(const BlockHash& before, std::span<const std::int32_t> tokens) {
  // One call over contiguous bytes is several times faster than a streaming state; long blocks are
  // chains of pieces.
  constexpr std::size_t kPiece = 64;
  std::array<std::byte, sizeof(BlockHash) + kPiece * sizeof(std::int32_t)> bytes;
  BlockHash hash = before;
  while (!tokens.empty()) {
    const auto piece = std::as_bytes(tokens.first(std::min(tokens.size(), kPiece)));
    tokens = tokens.subspan(piece.size() / sizeof(std::int32_t));
    std::memcpy(bytes.data(), &hash, sizeof hash);
    std::memcpy(bytes.data() + sizeof hash, piece.data(), piece.size());
    const XXH128_hash_t digest = XXH3_128bits(bytes.data(), sizeof hash + piece.size());
    hash = {digest.low64, digest.high64};
  }
  return hash;
}

PrefixIndex::PrefixIndex(std::uint32_t blocks, std::uint32_t block_size)
    : block_size_(block_size),
      table_(2 * std::bit_ceil(std::max<std::size_t>(blocks, 1))),
      chained_(blocks),
      present_(blocks, false),
      tokens_(std::size_t{blocks} * block_size) {}

std::size_t PrefixIndex::probe(const BlockHash& before, const BlockHash& hash,
                               std::span<const std::int32_t> tokens) const {
  assert(tokens.size() == block_size_);
  const std::uint32_t tag = tag_of(hash);
  std::size_t position = home_of(tag);
  for (; table_[position].block != kNone; position = after(position)) {
    const BlockId block = table_[position].block;
    if (table_[position].tag == tag && chained_[block].hash == hash &&
        chained_[block].before == before &&
        std::equal(tokens.begin(), tokens.end(), this->tokens(block).begin())) {
      break;
    }
  }
  return position;
}

std::optional<BlockId> PrefixIndex::find(const BlockHash& before, const BlockHash& hash,
                                         std::span<const std::int32_t> tokens) const {
  const BlockId block = table_[probe(before, hash, tokens)].block;
  if (block == kNone) return std::nullopt;
  return block;
}

bool PrefixIndex::insert(BlockId block, const BlockHash& before, const BlockHash& hash,
                         std::span<const std::int32_t> tokens) {
  assert(!contains(block));
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<std::ptrdiff_t>(std::size_t{block} * block_size_));
  Entry& entry = table_[probe(before, hash, tokens)];
  if (entry.block != kNone) return false;
  entry = {tag_of(hash), block};
  chained_[block] = {before, hash};
  present_[block] = true;
  ++size_;
  return true;
}

void PrefixIndex::erase(BlockId block) {
  assert(contains(block));
  std::size_t hole = home_of(tag_of(chained_[block].hash));
  while (table_[hole].block != block) hole = after(hole);
  // Entries displaced beyond the hole move into it, so that no probe ends too early.
  for (std::size_t position = after(hole); table_[position].block != kNone;
       position = after(position)) {
    const std::size_t pushed = (position - home_of(table_[position].tag)) & (table_.size() - 1);
    if (pushed < ((position - hole) & (table_.size() - 1))) continue;
    table_[hole] = table_[position];
    hole = position;
  }
  table_[hole] = {};
  present_[block] = false;
  --size_;
}

}  // namespace dovetail::kv
