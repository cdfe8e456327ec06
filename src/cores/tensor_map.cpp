#include "cores/tensor_map.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <type_traits>

namespace dovetail::cores {

static_assert(std::is_trivially_copyable_v<Region>);

TensorMap::TensorMap(std::uint32_t entries)
    : capacity_(entries),
      entries_(std::bit_ceil(std::max(entries, 1U))),
      // Most regions lie together, and nothing of this is touched.
      views_(std::make_unique_for_overwrite<View[]>(entries_.size())),
      buckets_(entries_.size(), 0) {}

std::size_t TensorMap::bucket_of(BufferId buffer) const {
  // Buffers are often addresses: multiples of a power of two.
  const std::uint64_t mixed = (buffer ^ (buffer >> 32)) * 0x9E3779B97F4A7C15U;
  return mixed >> 32 & (buckets_.size() - 1);
}

Region TensorMap::region(Position position) const {
  const Entry& held = entry(position);
  Region region(held.buffer, held.begin, held.end - held.begin);
  if (held.strided) {
    std::memcpy(static_cast<void*>(&region), &views_[position & (entries_.size() - 1)],
                sizeof(Region));
  }
  return region;
}

// Of the same buffer.
bool TensorMap::shares(Position position, const Region& region) const {
  const Entry& held = entry(position);
  if (held.end <= region.begin() || region.end() <= held.begin) return false;
  return (!held.strided && !region.strided()) || overlap(this->region(position), region);
}

void TensorMap::find(TaskNumber task, std::span<const Access> accesses,
                     std::span<const TaskNumber> after, std::vector<TaskNumber>& before) const {
  before.assign(after.begin(), after.end());
  for (const Access& access : accesses) {
    if (access.region.empty()) continue;
    const bool writes = access.mode != AccessMode::kRead;
    for (Position position = buckets_[bucket_of(access.region.buffer())]; position >= oldest_;
         position = entry(position).older) {
      const Entry& held = entry(position);
      if (held.buffer != access.region.buffer() || held.task == task) continue;
      if (!writes && !held.writes) continue;
      if (shares(position, access.region)) before.push_back(held.task);
    }
  }
  std::sort(before.begin(), before.end());
  before.erase(std::unique(before.begin(), before.end()), before.end());
  assert(before.empty() || before.back() < task);
}

bool TensorMap::enter(TaskNumber task, std::span<const Access> accesses) {
  if (capacity_ - size() < accesses.size()) return false;
  for (const Access& access : accesses) {
    if (access.region.empty()) continue;
    if (access.mode != AccessMode::kRead) forget_covered(access.region);
    insert(task, access);
  }
  return true;
}

// Earlier accesses to bytes that are written now are never looked up again: a later task waits for
// the writer.
void TensorMap::forget_covered(const Region& region) {
  Position* link = &buckets_[bucket_of(region.buffer())];
  while (*link >= oldest_) {
    Entry& held = entry(*link);
    const bool inside =
        held.buffer == region.buffer() && region.begin() <= held.begin && held.end <= region.end();
    if (inside && (!region.strided() || covers(region, this->region(*link)))) {
      *link = held.older;
    } else {
      link = &held.older;
    }
  }
}

void TensorMap::insert(TaskNumber task, const Access& access) {
  const Position position = next_++;
  Position& newest = buckets_[bucket_of(access.region.buffer())];
  entry(position) = {
      access.region.buffer(),           access.region.begin(),  access.region.end(), task, newest,
      access.mode != AccessMode::kRead, access.region.strided()};
  if (access.region.strided()) {
    std::memcpy(&views_[position & (entries_.size() - 1)], &access.region, sizeof(Region));
  }
  newest = position;
}

}  // namespace dovetail::cores
