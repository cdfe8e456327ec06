#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "pipeline/flow/column_plan.h"
#include "pipeline/store/lease.h"

namespace dovetail::pipeline {

// Where in the order of a worker a record stands: the frontier counts the records of a shared run
// in the order in which they come to it, from 0 and without gaps, and never twice the same. A range
// that was lost and comes again has other places.
using Place = std::uint64_t;

// The records of a shared run that this worker holds, each in its place. Without clock, thread or
// I/O.
class RecordRanges {
 public:
  struct Places {
    Place first = 0, end = 0;
  };
  struct Progress {
    std::vector<RecordRange> complete;    // all their records are durable; they are forgotten
    std::uint64_t made = 0, dropped = 0;  // records with a cell that was made here
  };

  // The places of a new range, behind all others. `stored`: what the store has of it, by record.
  Places add(const RecordRange& range, std::vector<CellResult> stored);

  // Whether the record that stood there is still this worker's; the other functions want one that
  // is.
  bool holds(Place place) const { return find(place) != ranges_.end(); }
  RecordId record(Place place) const;
  // Its stored cells, handed out once.
  std::vector<CellResult> stored(Place place);
  // Somebody has worked on its range before.
  bool was_begun(Place place) const { return find(place)->second.was_begun; }

  // The first place of a range by its records.
  std::optional<Place> place_of(RecordId record) const;
  // How many of the first cells, which come by record, are of the same range.
  std::size_t of_one_range(std::span<const CellResult> cells) const;

  // A cell of it was made here.
  void make(Place place);
  // All its cells will be durable with batch `batch`; batches are counted from 1.
  void end(Place place, std::uint64_t batch, bool dropped);
  // Batches up to this one are durable.
  Progress durable(std::uint64_t batch);

  // Forgets a range, by its first place; nothing where that has happened before.
  std::optional<std::pair<RecordRange, Places>> lose(Place first);

  Place places() const { return places_; }
  // Of the last range.
  std::uint64_t range_records() const { return range_records_; }

 private:
  struct Range {
    RecordRange records;
    bool was_begun = false;
    std::vector<CellResult> stored;
    std::vector<bool> made;     // by record
    std::uint64_t durable = 0;  // records
  };
  struct Ended {
    Place place = 0;
    std::uint64_t batch = 0;
    bool dropped = false;
  };
  using Ranges = std::map<Place, Range>;  // by the first place

  Ranges::const_iterator find(Place place) const;
  Range& at(Place place) { return ranges_.at(find(place)->first); }

  Ranges ranges_;
  std::deque<Ended> ended_;  // not durable yet, by batch
  Place places_ = 0;
  std::uint64_t range_records_ = 0;
};

}  // namespace dovetail::pipeline
