#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cores/region.h"

namespace dovetail::cores {

// Tasks by the order in which they were submitted.
using TaskNumber = std::uint64_t;

enum class AccessMode : std::uint8_t { kRead, kWrite, kReadWrite };

// What a task does with a region.
struct Access {
  Region region;
  AccessMode mode = AccessMode::kRead;
};

// Finds out which earlier tasks a task has to wait for, from what they read and write: who reads
// waits for those who wrote the same bytes, who writes also for those who read them. Holds accesses
// of tasks that have not ended, in memory that is taken at the start. One thread.
class TensorMap {
 public:
  // Room for so many accesses.
  explicit TensorMap(std::uint32_t entries);

  // Predecessors of a task that is submitted after all others, in their order, each once: those in
  // `after`, which have to be earlier tasks, and those that share memory with the task.
  // Predecessors of the latter may be left out.
  void find(TaskNumber task, std::span<const Access> accesses, std::span<const TaskNumber> after,
            std::vector<TaskNumber>& before) const;

  // Enters the accesses of a task, after find(). False: there is no room for them before older
  // tasks end; nothing was entered.
  bool enter(TaskNumber task, std::span<const Access> accesses);

  // All tasks before this one have ended.
  void retire_before(TaskNumber task) {
    while (oldest_ != next_ && entry(oldest_).task < task) ++oldest_;
  }

  // Accesses that are held: those of the oldest task that has not ended, and all younger ones.
  std::uint32_t size() const { return static_cast<std::uint32_t>(next_ - oldest_); }
  std::uint32_t capacity() const { return capacity_; }

 private:
  // Accesses by the order in which they were entered, in a ring; 0 is none. Those of ended tasks
  // are forgotten with all that are older.
  using Position = std::uint64_t;

  struct Entry {
    BufferId buffer = 0;
    std::uint64_t begin = 0, end = 0;
    TaskNumber task = 0;
    Position older = 0;  // in its bucket
    bool writes = false;
    bool strided = false;  // views_ has the region
  };
  using View = std::array<std::byte, sizeof(Region)>;

  Entry& entry(Position position) { return entries_[position & (entries_.size() - 1)]; }
  const Entry& entry(Position position) const { return entries_[position & (entries_.size() - 1)]; }
  Region region(Position position) const;
  std::size_t bucket_of(BufferId buffer) const;
  bool shares(Position position, const Region& region) const;
  void forget_covered(const Region& region);
  void insert(TaskNumber task, const Access& access);

  std::uint32_t capacity_;
  std::vector<Entry> entries_;
  std::unique_ptr<View[]> views_;   // by the places of the entries
  std::vector<Position> buckets_;   // the newest entry of each
  Position oldest_ = 1, next_ = 1;  // what is held: older entries are none
};

}  // namespace dovetail::cores
