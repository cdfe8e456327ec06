#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "pipeline/run/lease_thread.h"
#include "pipeline/run/record_ranges.h"

namespace dovetail::pipeline {

// The records of a shared run that come to this worker and go: leases that are asked for on a
// thread, and the places of what they brought. Everything here returns at once and is called on the
// runner's thread.
class SharedRecords {
 public:
  // `tell` as for LeaseThread; what it is told is for hear().
  SharedRecords(const LeasePort& port, const Store& store, std::function<void(LeaseNews)> tell)
      : thread_(port, store, std::move(tell)) {}

  struct Lost {
    RecordRange records;
    RecordRanges::Places places;
  };
  // What news come to: first what was lost, then what came.
  struct Change {
    std::optional<Lost> lost;  // nothing more of it may be made or stored
    std::optional<RecordRange> leased;
    std::optional<Error> failure;
  };
  Change hear(LeaseNews news);

  // The store refused a put for this range, by its first place; nothing where its loss is known.
  std::optional<Lost> lose(Place range);

  // Asks for one more range where fewer records are left to be opened than a range has: what is
  // ready keeps the models busy until it comes.
  void lease_ahead(Place opened);

  // Batches up to this one are durable: ranges are completed.
  RecordRanges::Progress durable(std::uint64_t batch);

  // A range may come at any moment.
  bool expects_more() const { return asked_ && !none_free_; }
  // The run is complete.
  bool all_made() const { return all_made_; }

  RecordRanges& ranges() { return ranges_; }
  const RecordRanges& ranges() const { return ranges_; }

 private:
  std::optional<Lost> forget(Place range);

  RecordRanges ranges_;
  bool asked_ = false;
  bool none_free_ = false;  // others hold what is left
  bool all_made_ = false;
  LeaseThread thread_;
};

}  // namespace dovetail::pipeline
