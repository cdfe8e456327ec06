#include "model/cpu/cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace dovetail::model {

Result<Cache> Cache::create(CacheShape shape, std::uint32_t blocks, std::uint32_t slots,
                            std::uint32_t saved) {
  assert(blocks > 0 && shape.block_bytes() + shape.state_floats() > 0);
  const auto reserve = [](std::size_t each, std::uint32_t count,
                          std::string_view what) -> Result<Memory> {
    std::size_t bytes = 0;
    if (__builtin_mul_overflow(each, static_cast<std::size_t>(count), &bytes)) {
      return fail(ErrorKind::kExhausted,
                  "cache: {} {} of {} bytes are more than this machine can address", count, what,
                  each);
    }
    if (bytes == 0) return Memory(nullptr, Unmap{0});
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return fail(ErrorKind::kExhausted, "cache: no memory for {} {} of {} bytes: {}", count, what,
                  each, std::strerror(errno));
    }
    // The first write to a run of blocks would wait until a huge page for every few layers is
    // cleared, which is longer than a step.
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    return Memory(static_cast<std::byte*>(memory), Unmap{bytes});
  };
  Result<Memory> memory = reserve(shape.block_bytes(), blocks, "blocks");
  if (!memory) return fail(memory.error());
  Result<Memory> states = reserve(shape.state_floats() * sizeof(float), slots, "states");
  if (!states) return fail(states.error());
  Result<Memory> kept = reserve(shape.state_floats() * sizeof(float), saved, "saved states");
  if (!kept) return fail(kept.error());
  const std::uint32_t all = blocks * shape.groups();
  return Cache(std::move(shape), all, *std::move(memory), *std::move(states), *std::move(kept));
}

void Cache::Unmap::operator()(std::byte* memory) const { munmap(memory, bytes); }

std::byte* Cache::tile(std::uint32_t layer, std::uint32_t head, std::uint32_t block,
                       std::size_t which) const {
  assert(layer < shape_.layers().size() && block < blocks_);
  const CacheShape::Layer& of = shape_.layers()[layer];
  assert(head < of.kv_heads);
  const std::uint32_t first = block / run_ * run_;
  const std::size_t in_run = std::min(run_, blocks_ - first);
  const std::size_t index = (head * in_run + (block - first)) * of.tiles + which;
  return memory_.get() + first * shape_.unit_bytes() + in_run * of.before + index * of.tile_bytes;
}

template <class Function>
void Cache::for_each_tiles(const Function& function) const {
  for (std::uint32_t layer = 0; layer < shape_.layers().size(); ++layer) {
    const CacheShape::Layer& of = shape_.layers()[layer];
    for (std::uint32_t head = 0; head < of.kv_heads; ++head)
      function(layer, head, of.tiles * of.tile_bytes);
  }
}

void Cache::copy(std::uint32_t from, std::uint32_t to) const {
  if (from == to) return;
  for_each_tiles([&](std::uint32_t layer, std::uint32_t head, std::size_t bytes) {
    std::memcpy(tile(layer, head, to, 0), tile(layer, head, from, 0), bytes);
  });
}

void Cache::poison(std::uint32_t block) const {
  // All bits set is a NaN in F32, F16 and BF16, and in the scales of Q8_0.
  for_each_tiles([&](std::uint32_t layer, std::uint32_t head, std::size_t bytes) {
    std::memset(tile(layer, head, block, 0), 0xff, bytes);
  });
}

void Cache::load_state(std::uint32_t slot, std::uint32_t saved) const {
  const std::size_t bytes = shape_.state_floats() * sizeof(float);
  std::memcpy(states_.get() + slot * bytes, saved_.get() + saved * bytes, bytes);
}

void Cache::poison_state(std::uint32_t slot) const {
  const std::size_t floats = shape_.state_floats();
  if (floats == 0) return;
  std::memset(states_.get() + slot * floats * sizeof(float), 0xff, floats * sizeof(float));
}

}  // namespace dovetail::model
