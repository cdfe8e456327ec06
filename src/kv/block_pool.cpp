#include "kv/block_pool.h"

#include <cassert>

namespace dovetail::kv {

BlockPool::BlockPool(std::uint32_t blocks, std::uint32_t block_size, bool prefix_cache)
    : references_(blocks, 0) {
  free_.reserve(blocks);
  for (BlockId block = blocks; block > 0; --block) free_.push_back(block - 1);
  if (prefix_cache) {
    index_.emplace(blocks, block_size);
    older_.assign(blocks, kNone);
    newer_.assign(blocks, kNone);
  }
}

BlockPool::Taken BlockPool::allocate() {
  assert(available() > 0);
  Taken taken;
  if (!free_.empty()) {
    taken.block = free_.back();
    free_.pop_back();
  } else {
    taken = {oldest_, true};
    unlink(taken.block);
    index_->erase(taken.block);
    if (note_stale_) stale_.push_back(taken.block);
  }
  assert(references_[taken.block] == 0);
  references_[taken.block] = 1;
  return taken;
}

void BlockPool::share(BlockId block) {
  if (references_[block] == 0) {
    assert(index_ && index_->contains(block));
    unlink(block);
  }
  ++references_[block];
}

void BlockPool::release(BlockId block) {
  assert(references_[block] > 0);
  if (--references_[block] > 0) return;
  if (!index_ || !index_->contains(block)) {
    free_.push_back(block);
    if (note_stale_) stale_.push_back(block);
    return;
  }
  older_[block] = newest_;
  newer_[block] = kNone;
  (newest_ == kNone ? oldest_ : newer_[newest_]) = block;
  newest_ = block;
  ++cached_;
}

void BlockPool::take_stale(std::vector<BlockId>& blocks) {
  blocks.insert(blocks.end(), stale_.begin(), stale_.end());
  stale_.clear();
}

void BlockPool::unlink(BlockId block) {
  (older_[block] == kNone ? oldest_ : newer_[older_[block]]) = newer_[block];
  (newer_[block] == kNone ? newest_ : older_[newer_[block]]) = older_[block];
  --cached_;
}

}  // namespace dovetail::kv
