#include "kv/block_pool.h"

#include <utility>

namespace dovetail::kv {

BlockPool::BlockPool(std::uint32_t blocks) : references_(blocks, 0) {
  for (BlockId block = 0; block < blocks; ++block) free_.push_back(block);
}

BlockId BlockPool::allocate() {
  assert(!free_.empty());
  const BlockId block = free_.front();
  free_.pop_front();
  assert(references_[block] == 0);
  references_[block] = 1;
  return block;
}

void BlockPool::share(BlockId block) {
  assert(references_[block] > 0);
  ++references_[block];
}

void BlockPool::release(BlockId block) {
  assert(references_[block] > 0);
  if (--references_[block] > 0) return;
  free_.push_back(block);
  freed_.push_back(block);
}

std::vector<BlockId> BlockPool::take_freed() { return std::exchange(freed_, {}); }

}  // namespace dovetail::kv
