#include <algorithm>
#include <numeric>
#include <utility>

#include "pipeline/run/mutation.h"
#include "pipeline/run/run.h"

namespace dovetail::pipeline {

void Run::hear(LeaseNews& news) {
  if (mutated(RunMutant::kKeepsLost)) {
    const auto* lost = std::get_if<RangeLost>(&news);
    if (lost != nullptr) return note_range(RunEventKind::kLost, lost->range);
  }
  const SharedRecords::Change change = shared_->hear(std::move(news));
  if (change.lost) abandon(*change.lost);
  if (change.leased) {
    note_range(RunEventKind::kLease, *change.leased);
    frontier_.set_records(shared_->ranges().places());
  }
  if (change.failure) failure_ = change.failure;
}

// Another worker makes these records: what is under way is not waited for and comes to nothing.
void Run::abandon(const SharedRecords::Lost& lost) {
  note_range(RunEventKind::kLost, lost.records);
  const Place end = std::min(lost.places.end, frontier_.opened());
  for (Place place = lost.places.first; place < end; ++place) {
    if (open_.erase(place) > 0) frontier_.drop(place);
  }
  std::erase_if(unstored_, [&](const CellResult& cell) {
    return lost.records.first <= cell.record && cell.record < lost.records.end;
  });
  std::erase_if(deferred_, [&](Cell cell) {
    const bool gone = !shared_->ranges().holds(cell.record);
    if (gone) frontier_.end(cell);
    return gone;
  });
}

void Run::complete_ranges() {
  const bool early = mutated(RunMutant::kCompletesEarly);
  const RecordRanges::Progress ended = shared_->durable(early ? batches_ : durable_);
  progress_.finished += ended.made;
  progress_.dropped += ended.dropped;
  for (const RecordRange& range : ended.complete) note_range(RunEventKind::kComplete, range);
}

// What the store has of a record.
Result<std::vector<CellResult>> Run::stored(RecordId record) {
  if (shared_) return shared_->ranges().stored(record);
  if (!ports_.resumes) return std::vector<CellResult>();
  return ports_.store->read_record(record);
}

// The columns of a record whose cells have ended in an earlier run, or elsewhere.
std::vector<ColumnId> Run::open(RecordId record) {
  // Its range was lost before it was begun.
  if (shared_ && !shared_->ranges().holds(record)) return all_columns();
  OpenRecord& opened = open_[record];
  opened.absent.assign(spec_.columns.size(), false);
  note({.kind = RunEventKind::kOpen, .cell = {record, 0}});
  std::vector<ColumnId> ended;
  const auto cells = stored(record);
  if (!cells) {
    failure_ = cells.error();
    return ended;
  }
  for (const CellResult& cell : *cells) {
    ended.push_back(cell.column);
    if (const Status ok = apply(spec_, cell, opened); !ok) failure_ = ok.error();
    ColumnCounts& counts = progress_.columns[cell.column];
    if (cell.state == CellState::kValue) ++counts.values;
    if (cell.state == CellState::kSkipped) ++counts.skipped;
    if (cell.provenance.cut) ++counts.cut;
    if (cell.state == CellState::kFailed || cell.state == CellState::kDropped) ++counts.failed;
    note({.kind = RunEventKind::kStored,
          .cell = {record, cell.column},
          .number = static_cast<std::uint64_t>(cell.state)});
  }
  // Nothing more of a dropped record is made.
  if (!opened.reason.empty()) return all_columns();
  return ended;
}

// Passes on the finished records that the store has, in order up to the first that is not; true:
// that is all.
Result<bool> Run::pass_on_stored() {
  constexpr RecordId kAtOnce = 1024;
  RecordId record = 0;
  bool all = true;
  for (; record < spec_.records && !emitter_.reached(); ++record) {
    const bool stops = ports_.stop && ports_.stop() != StopLevel::kNone;
    const bool has_ended = !stops && open(record).size() == spec_.columns.size();
    if (failure_) return fail(*failure_);
    if (has_ended) emitter_.add(record, 0, std::move(open_.at(record)));
    open_.erase(record);
    all = all && has_ended;
    if (stops || (!has_ended && ports_.in_order)) break;
    if (record % kAtOnce != 0) continue;
    if (const auto ok = emitter_.durable(0); !ok) return fail(ok.error());
  }
  if (const auto ok = emitter_.durable(0); !ok) return fail(ok.error());
  return (all && record == spec_.records) || emitter_.reached();
}

std::vector<ColumnId> Run::all_columns() const {
  std::vector<ColumnId> all(spec_.columns.size());
  std::iota(all.begin(), all.end(), ColumnId{0});
  return all;
}

void Run::hear(Durable& durable) {
  if (!durable.status && shared_ && durable.status.error().kind == ErrorKind::kTimeout) {
    if (const auto lost = shared_->lose(durable.range)) abandon(*lost);
  } else if (!durable.status && !failure_) {
    failure_ = durable.status.error();
  }
  durable_ = durable.batch;
  note({.kind = RunEventKind::kDurable, .number = durable_});
}

// Hands over what has ended since the last time. The store commits in this order: no cell is
// durable without those that it was made of.
void Run::hand_over() {
  if (!unstored_.empty()) {
    std::vector<CellResult> late;
    if (mutated(RunMutant::kStoresLate) && unstored_.size() > 1) {
      late.push_back(std::move(unstored_.front()));
      unstored_.erase(unstored_.begin());
    }
    std::sort(unstored_.begin(), unstored_.end(), [](const CellResult& a, const CellResult& b) {
      return std::pair(a.record, a.column) < std::pair(b.record, b.column);
    });
    // What is refused since its range was lost takes nothing of another range with it.
    for (std::span<const CellResult> left = unstored_; !left.empty();) {
      const std::size_t count = shared_ ? shared_->ranges().of_one_range(left) : left.size();
      put(left.first(count));
      left = left.subspan(count);
    }
    unstored_ = std::move(late);
  }
  while (const auto record = frontier_.next_ended()) {
    const auto ended = open_.find(*record);
    if (ended == open_.end()) continue;  // its range was lost
    if (shared_) {
      shared_->ranges().end(*record, batches_, !ended->second.reason.empty());
    } else {
      emitter_.add(*record, batches_, std::move(ended->second));
    }
    open_.erase(ended);
  }
}

void Run::put(std::span<const CellResult> cells) {
  const Place range = shared_ ? shared_->ranges().place_of(cells.front().record).value() : 0;
  ports_.store->put(cells, [inbox = inbox_, batch = ++batches_, range](Status status) {
    inbox->put(Durable{batch, range, std::move(status)}, false);
  });
  if (!ports_.observe) return;
  for (const CellResult& cell : cells) {
    ports_.observe({RunEventKind::kStore, 0, {cell.record, cell.column}, batches_, 0});
  }
}

void Run::note(RunEvent event) {
  if (!ports_.observe) return;
  // What is no record's has no place.
  const bool is_of_record = event.kind != RunEventKind::kDurable &&
                            event.kind != RunEventKind::kRoom && event.kind != RunEventKind::kPass;
  if (is_of_record) event.cell.record = id_of(event.cell.record);
  ports_.observe(event);
}

void Run::note_range(RunEventKind kind, const RecordRange& range) {
  if (ports_.observe) ports_.observe({kind, 0, {range.first, 0}, range.end, 0});
}

Status Run::emit(const FinishedRecord& record) {
  note({.kind = RunEventKind::kEmit,
        .cell = {record.record, 0},
        .number = record.reason.empty() ? 0U : 1U});
  ++(record.reason.empty() ? progress_.finished : progress_.dropped);
  return ports_.emit(record);
}

}  // namespace dovetail::pipeline
