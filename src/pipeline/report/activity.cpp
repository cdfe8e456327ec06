#include "pipeline/report/activity.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace dovetail::pipeline {
namespace {

struct CauseText {
  std::string_view name, words;
};
constexpr std::array<CauseText, kSlotCauses> kCauseTexts{{
    {"taking", "being sent requests"},
    {"limit", "at its limit"},
    {"cool_down", "cooling down"},
    {"budget", "rate budget used up"},
    {"broken", "failing"},
    {"nothing_ready", "nothing ready"},
    {"window", "window full"},
    {"max_parallel", "at your max_parallel"},
}};

// A century; what is longer is damage.
constexpr std::uint64_t kLongest = std::uint64_t{100} * 366 * 86'400 * 1'000'000;

// Causes at the end are missing in what was kept before they were told apart.
constexpr std::size_t kFirstCauses = 7;

// What is not there stays as it is; `least` numbers are.
bool read_numbers(const Json& json, std::span<std::uint64_t* const> out, std::size_t least) {
  if (!json.is_array() || json.size() < least || json.size() > out.size()) return false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (!json[i].is_number_unsigned()) return false;
    *out[i] = json[i].get<std::uint64_t>();
  }
  return true;
}

std::uint64_t number_in(const Json& json, const char* key) {
  const auto at = json.find(key);
  return at != json.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
}

}  // namespace

std::string_view words_of(SlotCause cause) {
  return kCauseTexts[static_cast<std::size_t>(cause)].words;
}
std::string_view name_of(SlotCause cause) {
  return kCauseTexts[static_cast<std::size_t>(cause)].name;
}

std::uint64_t Activity::Bucket::covered() const {
  return std::accumulate(by.begin(), by.end(), std::uint64_t{0});
}

Activity::Activity(std::size_t most_buckets)
    : most_buckets_(std::max<std::size_t>(most_buckets, 2)) {}

void Activity::sample(std::uint64_t time, std::uint32_t in_flight, std::uint32_t limit,
                      SlotCause cause) {
  add(time);
  known_ = true;
  in_flight_ = std::min(in_flight, kMostRequests);
  limit_ = std::min(limit, kMostRequests);
  cause_ = cause;
}

void Activity::end(std::uint64_t time) {
  add(time);
  known_ = false;
}

void Activity::add(std::uint64_t until) {
  until = std::min(until, kLongest);
  if (until <= last_) return;
  const std::uint64_t from = std::exchange(last_, until);
  if (!known_) return;
  while (until > width_ * most_buckets_) fold();
  const auto cause = static_cast<std::size_t>(cause_);
  buckets_.resize(std::max<std::size_t>(buckets_.size(), (until - 1) / width_ + 1));
  for (std::uint64_t at = from; at < until;) {
    const std::uint64_t index = at / width_;
    const std::uint64_t next = std::min(until, (index + 1) * width_);
    Bucket& bucket = buckets_[index];
    bucket.in_flight += (next - at) * in_flight_;
    bucket.limit += (next - at) * limit_;
    bucket.by[cause] += next - at;
    at = next;
  }
  if (limit_ > in_flight_) free_[cause] += (until - from) * (limit_ - in_flight_);
}

void Activity::fold() {
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const Bucket from = buckets_[i];
    Bucket& to = buckets_[i / 2];
    if (i % 2 == 0) {
      to = from;
      continue;
    }
    to.in_flight += from.in_flight;
    to.limit += from.limit;
    for (std::size_t cause = 0; cause < kSlotCauses; ++cause) to.by[cause] += from.by[cause];
  }
  buckets_.resize((buckets_.size() + 1) / 2);
  width_ *= 2;
}

Activity::Bucket Activity::total() const {
  Bucket sum;
  for (const Bucket& bucket : buckets_) {
    sum.in_flight += bucket.in_flight;
    sum.limit += bucket.limit;
    for (std::size_t cause = 0; cause < kSlotCauses; ++cause) sum.by[cause] += bucket.by[cause];
  }
  return sum;
}

Json Activity::to_json() const {
  Json buckets = Json::array();
  for (const Bucket& bucket : buckets_) {
    Json row = {bucket.in_flight, bucket.limit};
    for (const std::uint64_t time : bucket.by) row.push_back(time);
    buckets.push_back(std::move(row));
  }
  return {{"most_buckets", most_buckets_},
          {"width_us", width_},
          {"last_us", last_},
          {"free_slots", free_},
          {"buckets", buckets}};
}

Result<Activity> Activity::from_json(const Json& json) {
  const auto damaged = [](std::string_view what) {
    return fail(ErrorKind::kInvalid, "activity of an endpoint: {} is not what a run has written",
                what);
  };
  if (!json.is_object()) return damaged("the value");
  const std::uint64_t most = number_in(json, "most_buckets");
  if (most < 2 || most > (std::uint64_t{1} << 16)) return damaged("most_buckets");
  Activity activity(static_cast<std::size_t>(most));
  activity.width_ = number_in(json, "width_us");
  activity.last_ = number_in(json, "last_us");
  if (activity.width_ < kNarrowest || activity.width_ > kLongest) return damaged("width_us");
  if (activity.last_ > kLongest) return damaged("last_us");

  const auto free = json.find("free_slots");
  std::array<std::uint64_t*, kSlotCauses> free_slots{};
  for (std::size_t i = 0; i < kSlotCauses; ++i) free_slots[i] = &activity.free_[i];
  if (free == json.end() || !read_numbers(*free, free_slots, kFirstCauses))
    return damaged("free_slots");

  const auto buckets = json.find("buckets");
  if (buckets == json.end() || !buckets->is_array() || buckets->size() > most) {
    return damaged("buckets");
  }
  for (const Json& row : *buckets) {
    Bucket& bucket = activity.buckets_.emplace_back();
    std::array<std::uint64_t*, kSlotCauses + 2> numbers{&bucket.in_flight, &bucket.limit};
    for (std::size_t i = 0; i < kSlotCauses; ++i) numbers[i + 2] = &bucket.by[i];
    if (!read_numbers(row, numbers, kFirstCauses + 2)) return damaged("buckets");
  }
  return activity;
}

}  // namespace dovetail::pipeline
