#include "pipeline/run/lease_port.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

namespace dovetail::pipeline {
namespace {

// Small ranges let the workers end together, large ones cost fewer questions.
constexpr std::uint64_t kRangesOfARun = 256;
constexpr std::uint64_t kLeastRange = 8;
constexpr std::uint64_t kMostRange = 256;

struct Listener {
  std::mutex mutex;
  std::function<void(const RecordRange&)> lost;
};

}  // namespace

Result<LeasePort> lease_port(Store& store, std::uint64_t records,
                             std::chrono::milliseconds duration) {
  auto listener = std::make_shared<Listener>();
  LeaseOptions options;
  options.records = records;
  options.range_records = std::clamp(records / kRangesOfARun, kLeastRange, kMostRange);
  options.duration = duration;
  options.on_lost = [listener](const RecordRange& range) {
    const std::lock_guard lock(listener->mutex);
    if (listener->lost) listener->lost(range);
  };
  auto opened = Leases::open(store, std::move(options));
  if (!opened) return fail(std::move(opened.error()));
  const std::shared_ptr<Leases> leases = *std::move(opened);
  LeasePort port;
  port.take = [leases] { return leases->take(); };
  port.complete = [leases](const RecordRange& range) { return leases->complete(range); };
  port.give_back = [leases](const RecordRange& range) { return leases->give_back(range); };
  port.all_complete = [leases]() -> Result<bool> {
    const auto progress = leases->progress();
    if (!progress) return fail(progress.error());
    return progress->complete == progress->ranges;
  };
  port.on_lost = [listener](std::function<void(const RecordRange&)> lost) {
    const std::lock_guard lock(listener->mutex);
    listener->lost = std::move(lost);
  };
  return port;
}

}  // namespace dovetail::pipeline
