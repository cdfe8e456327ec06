#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace dovetail::pipeline {

// Why an endpoint has no more in flight than it has. The first five are IdleCause's.
enum class SlotCause : std::uint8_t {
  kTaking,        // nothing is in the way: it is sent what there is
  kLimit,         // its limit of requests is in flight
  kCoolDown,      // it asked for a pause
  kBudget,        // its requests or tokens of this minute are used up
  kBroken,        // it fails; it is tried again soon
  kNothingReady,  // no cell is ready for it: what its cells need is still being made
  kWindow,        // no cell is ready for it, since no further record may be opened
  kMaxParallel,   // as kLimit, and the limit is the most that the file allows
};
inline constexpr std::size_t kSlotCauses = 8;

// For people: "at its limit"; for machines: "limit".
std::string_view words_of(SlotCause cause);
std::string_view name_of(SlotCause cause);

// What an endpoint did over the time of a run, in memory that does not grow with it: sums over
// at most so many buckets of time, whose width doubles when the run outgrows them. All sums are
// exact integers, in requests × microseconds. Time is that of the run, in microseconds from its
// beginning, without the time between a run and its being resumed. Not thread-safe.
class Activity {
 public:
  struct Bucket {
    std::uint64_t in_flight = 0;                  // sum of requests in flight over time
    std::uint64_t limit = 0;                      // sum of the limit over time
    std::array<std::uint64_t, kSlotCauses> by{};  // time, by cause

    std::uint64_t covered() const;  // time in which anything is known
    friend bool operator==(const Bucket&, const Bucket&) = default;
  };

  static constexpr std::size_t kBuckets = 512;
  static constexpr std::uint64_t kNarrowest = 1000;  // of a bucket, in microseconds
  static constexpr std::uint32_t kMostRequests = std::uint32_t{1} << 20;

  explicit Activity(std::size_t most_buckets = kBuckets);

  // From `time` on it is so. A time before the last one counts as the last one; requests and limits
  // above kMostRequests as kMostRequests.
  void sample(std::uint64_t time, std::uint32_t in_flight, std::uint32_t limit, SlotCause cause);
  // Until `time` it was as the last sample says; what follows is unknown until the next sample.
  void end(std::uint64_t time);

  std::uint64_t bucket_width() const { return width_; }
  std::span<const Bucket> buckets() const { return buckets_; }
  std::uint64_t last() const { return last_; }  // up to when it is known
  Bucket total() const;
  // Slots that were free (the limit less what was in flight) over time, by cause.
  const std::array<std::uint64_t, kSlotCauses>& free_slots() const { return free_; }

  // All of it, and back: what a run keeps to be resumed, and to be reported on later. kInvalid: it
  // is no such text.
  Json to_json() const;
  static Result<Activity> from_json(const Json& json);

  friend bool operator==(const Activity&, const Activity&) = default;

 private:
  void add(std::uint64_t until);
  void fold();

  std::size_t most_buckets_;
  std::uint64_t width_ = kNarrowest;
  std::vector<Bucket> buckets_;
  std::array<std::uint64_t, kSlotCauses> free_{};
  std::uint64_t last_ = 0;
  bool known_ = false;  // from last_ on it is as below
  std::uint32_t in_flight_ = 0, limit_ = 0;
  SlotCause cause_ = SlotCause::kTaking;
};

}  // namespace dovetail::pipeline
