#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// Consecutive records that one worker makes.
struct RecordRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;  // one past the last
  friend bool operator==(const RecordRange&, const RecordRange&) = default;
};

struct LeaseOptions {
  std::uint64_t records = 0;  // of the run, the same for all workers; may grow from run to run
  // Of a range. The first worker of a run settles it, the others take it over.
  std::uint64_t range_records = 256;
  // Its name for people, in ASCII; empty: its process and host.
  std::string worker;
  // A lease that was not renewed for so long returns to the pool. Also what a worker has to renew
  // its leases after the server was away.
  std::chrono::milliseconds duration{60'000};
  std::chrono::milliseconds renew_every{0};  // 0: a third of the duration
  // Told of a range that another worker has now; on the thread that renews.
  std::function<void(const RecordRange&)> on_lost;
};

// Who makes which records of a run that several processes share (OpenMode::kShare). Each takes
// ranges that are free, one holder at a time; a store that shares its run takes cells of records
// that its process holds, and those alone. Leases are renewed by a thread of their own. A worker
// that was cut off so long that another one has its range finds its puts refused with kTimeout,
// also those under way: the check is part of the commit. Any thread may call any function.
class Leases {
 public:
  // After the store's reconcile(). The store outlives it. kUnsupported: the store is not shared.
  static Result<std::unique_ptr<Leases>> open(Store& store, LeaseOptions options);
  // Gives back what it holds; flush the store before.
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  // The lowest range that is free, now held by this worker; nothing where all are held or complete:
  // ask again later, unless progress() says that all are complete. Some of its cells may be there.
  Result<std::optional<RecordRange>> take();
  // All cells of the range are durable: nobody takes it again, until columns change. kTimeout:
  // another worker has it.
  Status complete(const RecordRange& range);
  Status give_back(const RecordRange& range);

  struct Progress {
    std::uint64_t ranges = 0;
    std::uint64_t complete = 0;
    std::uint64_t held = 0;  // by anyone, also by those who do not renew any more
  };
  Result<Progress> progress();

 private:
  struct Impl;
  explicit Leases(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dovetail::pipeline
