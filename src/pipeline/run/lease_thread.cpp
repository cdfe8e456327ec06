#include "pipeline/run/lease_thread.h"

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

LeaseThread::LeaseThread(const LeasePort& port, const Store& store,
                         std::function<void(LeaseNews)> tell)
    : port_(port), store_(store), tell_(std::move(tell)) {
  port_.on_lost([tell = tell_](const RecordRange& range) { tell(RangeLost{range}); });
  thread_ = std::thread([this] { run(); });
}

LeaseThread::~LeaseThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  asked_.notify_one();
  thread_.join();
}

void LeaseThread::take() {
  {
    const std::lock_guard lock(mutex_);
    takes_ = true;
  }
  asked_.notify_one();
}

void LeaseThread::end(const RecordRange& range, bool complete) {
  {
    const std::lock_guard lock(mutex_);
    ended_.push_back({range, complete});
  }
  asked_.notify_one();
}

void LeaseThread::run() {
  bool first = true;  // attempt of this take()
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto asked = [&] { return ends_ || !ended_.empty() || (takes_ && first); };
    if (takes_) {
      asked_.wait_for(lock, port_.pause, asked);
    } else {
      asked_.wait(lock, asked);
    }
    const std::vector<Ended> ended = std::exchange(ended_, {});
    if (ended.empty() && ends_) return;
    const bool takes = std::exchange(takes_, false) && !ends_;
    lock.unlock();
    for (const Ended& one : ended) settle(one);
    const bool again = takes && !try_take(first);
    lock.lock();
    takes_ = takes_ || again;
    first = !again;
  }
}

void LeaseThread::settle(const Ended& ended) {
  const Status ok = ended.complete ? port_.complete(ended.range) : port_.give_back(ended.range);
  // Another worker has it: so be it. What could not be given back runs out by itself.
  if (ok || ok.error().kind == ErrorKind::kTimeout || !ended.complete) return;
  tell_(LeasesFailed{ok.error()});
}

bool LeaseThread::try_take(bool first) {
  const auto failed = [&](const Error& error) {
    tell_(LeasesFailed{error});
    return true;
  };
  const auto range = port_.take();
  if (!range) return failed(range.error());
  if (*range) {
    auto cells = store_.read_records((*range)->first, (*range)->end);
    if (!cells) return failed(cells.error());
    tell_(RangeTaken{**range, *std::move(cells)});
    return true;
  }
  const auto all = port_.all_complete();
  if (!all) return failed(all.error());
  if (*all) {
    tell_(AllRangesMade{});
  } else if (first) {
    tell_(NoRangeFree{});
  }
  return *all;
}

}  // namespace dovetail::pipeline
