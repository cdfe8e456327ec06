#include "kv/prefix_index.h"

// The streaming state lives on the stack.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cassert>

namespace dovetail::kv {

BlockHash root_hash(std::span<const std::byte> salt) {
  const XXH128_hash_t hash = XXH3_128bits(salt.data(), salt.size());
  return {hash.low64, hash.high64};
}

BlockHash chain_hash(const BlockHash& before, std::span<const std::int32_t> tokens) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, &before, sizeof before);
  XXH3_128bits_update(&state, tokens.data(), tokens.size_bytes());
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.low64, hash.high64};
}

PrefixIndex::PrefixIndex(std::uint32_t blocks, std::uint32_t block_size)
    : block_size_(block_size),
      heads_(std::bit_ceil(std::max<std::size_t>(blocks, 1)), kNone),
      next_(blocks, kNone),
      before_(blocks),
      hash_(blocks),
      present_(blocks, 0),
      tokens_(std::size_t{blocks} * block_size) {}

std::optional<BlockId> PrefixIndex::find(const BlockHash& before, const BlockHash& hash,
                                         std::span<const std::int32_t> tokens) const {
  assert(tokens.size() == block_size_);
  for (BlockId block = heads_[bucket_of(hash)]; block != kNone; block = next_[block]) {
    if (hash_[block] == hash && before_[block] == before &&
        std::equal(tokens.begin(), tokens.end(), tokens_of(block).begin())) {
      return block;
    }
  }
  return std::nullopt;
}

bool PrefixIndex::insert(BlockId block, const BlockHash& before, const BlockHash& hash,
                         std::span<const std::int32_t> tokens) {
  assert(!contains(block));
  if (find(before, hash, tokens)) return false;
  before_[block] = before;
  hash_[block] = hash;
  present_[block] = 1;
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<std::ptrdiff_t>(std::size_t{block} * block_size_));
  BlockId& head = heads_[bucket_of(hash)];
  next_[block] = head;
  head = block;
  ++size_;
  return true;
}

void PrefixIndex::erase(BlockId block) {
  assert(contains(block));
  BlockId* link = &heads_[bucket_of(hash_[block])];
  while (*link != block) link = &next_[*link];
  *link = next_[block];
  present_[block] = 0;
  --size_;
}

std::span<const std::int32_t> PrefixIndex::tokens_of(BlockId block) const {
  return std::span(tokens_).subspan(std::size_t{block} * block_size_, block_size_);
}

}  // namespace dovetail::kv
