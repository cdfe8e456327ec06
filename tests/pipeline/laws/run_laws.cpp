#include "pipeline/laws/run_laws.h"

#include <algorithm>

#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

RunLaws::RunLaws(const PipelineSpec& spec) : spec_(spec), depths_(spec.columns.size(), 0) {
  for (const ColumnDescription& column : spec.columns) {
    const std::string* alias = column.model();
    models_.push_back(alias != nullptr  ? static_cast<int>(spec.model(*alias))
                      : column.blocks() ? static_cast<int>(spec.models.size())
                                        : -1);
  }
  for (std::size_t column = spec.columns.size(); column-- > 0;) {
    for (const ColumnId need : spec.columns[column].needs) {
      depths_[need] = std::max(depths_[need], depths_[column] + 1);
    }
  }
  begin();
}

void RunLaws::begin(bool shared, bool in_order) {
  records_.clear();
  room_.assign(spec_.models.size() + 1, 0);
  served_.assign(spec_.columns.size(), 0);
  opened_ = emitted_ = durable_ = 0;
  shared_ = shared;
  in_order_ = in_order;
  leased_.clear();
  lost_ = 0;
}

std::string RunLaws::name(Cell cell) const {
  return fmt::format("cell {} of record {}", spec_.columns[cell.column].name, cell.record);
}

void RunLaws::see(const RunEvent& event) {
  ++seen_;
  if (!violations_.empty()) return;
  const bool of_cell = event.kind != RunEventKind::kOpen && event.kind != RunEventKind::kDurable &&
                       event.kind != RunEventKind::kEmit && event.kind != RunEventKind::kRoom &&
                       event.kind != RunEventKind::kPass && event.kind < RunEventKind::kLease;
  if (of_cell && !records_.contains(event.cell.record)) {
    return violate("law 4: {} is none of an open record", name(event.cell));
  }
  switch (event.kind) {
    case RunEventKind::kOpen:
      return open(event.cell.record);
    case RunEventKind::kStored:
      return stored(event);
    case RunEventKind::kSend:
      return send(event);
    case RunEventKind::kAnswer:
      return answer(event);
    case RunEventKind::kCached:
      if (!ready(records_.at(event.cell.record), event.cell.column)) {
        violate("law 5: {} is answered, but is not ready", name(event.cell));
      }
      ++served_[event.cell.column];
      book(event.cell).state = State::kHeld;
      return;
    case RunEventKind::kPutBack:
      if (book(event.cell).state != State::kHeld && book(event.cell).state != State::kDeferred) {
        violate("law 4: {} is put back, but was not taken", name(event.cell));
      }
      book(event.cell).state = State::kOpen;
      // Of a dropped record, it does not wait for another turn.
      if (!records_.at(event.cell.record).gone) --served_[event.cell.column];
      return settle(event.cell.record);
    case RunEventKind::kDefer:
      if (!book(event.cell).away) {
        violate("law 1: {} waits for the end, though its model was there", name(event.cell));
      }
      book(event.cell).state = State::kDeferred;
      return;
    case RunEventKind::kEnd:
      return end(event);
    case RunEventKind::kStore:
      return store(event);
    case RunEventKind::kDurable:
      if (event.number < durable_) violate("law 4: batch {} comes late", event.number);
      durable_ = event.number;
      return;
    case RunEventKind::kEmit:
      return emit(event);
    case RunEventKind::kRoom:
      room_[event.queue] = event.number;
      return;
    case RunEventKind::kPass:
      return pass(event);
    case RunEventKind::kLease:
      return lease(event);
    case RunEventKind::kLost:
      return lose(event);
    case RunEventKind::kComplete:
      return complete(event);
  }
}

void RunLaws::lease(const RunEvent& event) {
  for (RecordId record = event.cell.record; record < event.number; ++record) {
    if (records_.contains(record)) violate("law 4: record {} is leased twice", record);
    leased_.push_back(record);
  }
}

void RunLaws::lose(const RunEvent& event) {
  const auto is_lost = [&](RecordId record) {
    return event.cell.record <= record && record < event.number;
  };
  std::erase_if(leased_, is_lost);
  lost_ += std::erase_if(records_, [&](const auto& entry) { return is_lost(entry.first); });
}

void RunLaws::complete(const RunEvent& event) {
  for (RecordId record = event.cell.record; record < event.number; ++record) {
    check_durable(record, "complete");
    records_.erase(record);
  }
}

void RunLaws::open(RecordId record) {
  if (!any_unopened()) return violate("law 4: record {} is opened, and is none", record);
  const RecordId first = shared_ ? leased_.front() : opened_;
  if (record != first) violate("law 4: record {} is opened, but {} comes first", record, first);
  if (shared_) leased_.pop_front();
  if (open_records() >= spec_.window) {
    violate("law 2: record {} is opened beyond the window of {}", record, spec_.window);
  }
  records_[record].cells.resize(spec_.columns.size());
  records_[record].turn = opened_++;
}

void RunLaws::stored(const RunEvent& event) {
  CellBook& cell = book(event.cell);
  cell.state = State::kEnded;
  cell.from_before = true;
  cell.dropped = event.number == static_cast<std::uint64_t>(CellState::kDropped);
  if (cell.dropped) records_.at(event.cell.record).gone = true;
  settle(event.cell.record);
}

void RunLaws::send(const RunEvent& event) {
  const Cell cell = event.cell;
  const RecordBook& record = records_.at(cell.record);
  if (models_[cell.column] != static_cast<int>(event.queue)) {
    violate("law 1: {} goes to a model that is not its own", name(cell));
  }
  if (!ready(record, cell.column)) {
    return violate("law 5: {} is sent, but is not ready", name(cell));
  }
  for (const auto& [other_record, other] : records_) {
    for (ColumnId column = 0; column < spec_.columns.size(); ++column) {
      if (models_[column] != static_cast<int>(event.queue)) continue;
      const Cell before{other_record, column};
      if (!(before == cell) && ready(other, column) && goes_before(before, cell)) {
        return violate("law 3: {} goes before {}", name(cell), name(before));
      }
    }
  }
  if (room_[event.queue]-- == 0) {
    return violate("law 2: {} is sent to a model without room", name(cell));
  }
  const auto [seed, first] =
      seeds_.try_emplace({cell.record, {cell.column, event.attempt}}, event.number);
  if (seed->second != event.number) {
    violate("law 5: {} has another seed than before", name(cell));
  }
  ++served_[cell.column];
  book(cell).state = State::kSent;
}

void RunLaws::answer(const RunEvent& event) {
  CellBook& cell = book(event.cell);
  if (cell.state != State::kSent) return violate("law 4: {} was not sent", name(event.cell));
  cell.state = State::kHeld;
  cell.away = event.number == 1;
}

void RunLaws::end(const RunEvent& event) {
  CellBook& cell = book(event.cell);
  if (cell.state == State::kEnded) return violate("law 4: {} ends twice", name(event.cell));
  if (cell.state == State::kSent) violate("law 4: {} ends under way", name(event.cell));
  // Taken, and not sent: it was skipped, or cannot be asked.
  if (cell.state == State::kOpen) ++served_[event.cell.column];
  for (const ColumnId need : spec_.columns[event.cell.column].needs) {
    if (book({event.cell.record, need}).state != State::kEnded) {
      violate("law 5: {} ends before what it needs", name(event.cell));
    }
  }
  cell.state = State::kEnded;
  cell.dropped = event.number == static_cast<std::uint64_t>(CellState::kDropped);
  if (cell.dropped) records_.at(event.cell.record).gone = true;
  settle(event.cell.record);
}

void RunLaws::store(const RunEvent& event) {
  CellBook& cell = book(event.cell);
  if (cell.state != State::kEnded) violate("law 4: {} is stored unfinished", name(event.cell));
  if (cell.batch != 0) violate("law 4: {} is stored twice", name(event.cell));
  cell.batch = event.number;
  for (const ColumnId need : spec_.columns[event.cell.column].needs) {
    const CellBook& needed = book({event.cell.record, need});
    if (needed.batch == 0 && !needed.from_before) {
      violate("law 5: {} is stored before {}", name(event.cell), name({event.cell.record, need}));
    }
  }
}

void RunLaws::emit(const RunEvent& event) {
  const RecordId id = event.cell.record;
  if (in_order_ && id != emitted_) return violate("law 4: record {} comes before {}", id, emitted_);
  ++emitted_;
  const auto found = records_.find(id);
  if (found == records_.end()) return violate("law 4: record {} was never open", id);
  // A target refuses whole records.
  if (found->second.gone ? event.number == 0 : event.number == 1 && !spec_.target) {
    violate("law 4: record {} is dropped or not", id);
  }
  check_durable(id, "emitted");
  records_.erase(found);
}

void RunLaws::check_durable(RecordId id, const char* what) {
  const auto found = records_.find(id);
  if (found == records_.end()) return violate("law 4: record {} is {}, never open", id, what);
  const RecordBook& record = found->second;
  for (ColumnId column = 0; column < spec_.columns.size(); ++column) {
    const CellBook& cell = record.cells[column];
    if (record.gone && cell.state != State::kEnded) continue;
    if (cell.state != State::kEnded) {
      violate("law 4: record {} is {} without {}", id, what, name({id, column}));
    } else if (cell.batch > durable_) {
      violate("law 4: record {} is {}, but {} is not durable", id, what, name({id, column}));
    } else if (cell.batch == 0 && !cell.from_before) {
      violate("law 4: record {} is {}, but {} was never stored", id, what, name({id, column}));
    }
  }
}

// A model has been offered what there is.
void RunLaws::pass(const RunEvent& event) {
  if (event.number == 0) return;
  bool more_to_come = false;
  for (const auto& [id, record] : records_) {
    for (ColumnId column = 0; column < spec_.columns.size(); ++column) {
      if (models_[column] == static_cast<int>(event.queue) && ready(record, column)) {
        return violate("law 1: model {} has room for {}, and {} is ready", event.queue,
                       event.number, name({id, column}));
      }
      const bool instant = models_[column] < 0;
      more_to_come = more_to_come || (instant && !record.gone && !record.ended &&
                                      record.cells[column].state != State::kEnded);
    }
  }
  // A target narrows the window.
  if (spec_.target || more_to_come) return;
  if (!any_unopened() || open_records() + lost_ >= spec_.window) return;
  for (ColumnId column = 0; column < spec_.columns.size(); ++column) {
    if (models_[column] == static_cast<int>(event.queue) && brings(column)) {
      return violate("law 1: model {} has room for {}, and record {} could be opened", event.queue,
                     event.number, shared_ ? leased_.front() : opened_);
    }
  }
}

void RunLaws::finish() {
  if (!violations_.empty()) return;
  if (!shared_ && !spec_.target && emitted_ != spec_.records) {
    violate("law 4: {} of {} records were emitted", emitted_, spec_.records);
  }
}

bool RunLaws::ready(const RecordBook& record, ColumnId column) const {
  if (record.gone || record.cells[column].state != State::kOpen) return false;
  const auto& needs = spec_.columns[column].needs;
  return std::all_of(needs.begin(), needs.end(),
                     [&](ColumnId need) { return record.cells[need].state == State::kEnded; });
}

bool RunLaws::goes_before(Cell a, Cell b) const {
  const auto key = [&](Cell cell) {
    return std::pair(spec_.columns[cell.column].priority,
                     spec_.fair ? served_[cell.column] : depths_[cell.column]);
  };
  if (key(a) != key(b)) return key(a) < key(b);
  // Fair order says nothing of two columns that have been served alike.
  if (spec_.fair && a.column != b.column) return false;
  return records_.at(a.record).turn < records_.at(b.record).turn;
}

// Whether a new record brings a cell of this column once its instant columns are made.
bool RunLaws::brings(ColumnId column) const {
  const auto& needs = spec_.columns[column].needs;
  return std::all_of(needs.begin(), needs.end(),
                     [&](ColumnId need) { return models_[need] < 0 && brings(need); });
}

std::size_t RunLaws::open_records() const {
  return static_cast<std::size_t>(std::count_if(
      records_.begin(), records_.end(), [](const auto& entry) { return !entry.second.ended; }));
}

// A record whose cells have all ended is not open any more.
void RunLaws::settle(RecordId id) {
  RecordBook& record = records_.at(id);
  record.ended =
      record.gone
          ? std::none_of(record.cells.begin(), record.cells.end(),
                         [](const CellBook& cell) {
                           return cell.state == State::kSent || cell.state == State::kHeld ||
                                  cell.state == State::kDeferred;
                         })
          : std::all_of(record.cells.begin(), record.cells.end(),
                        [](const CellBook& cell) { return cell.state == State::kEnded; });
}

}  // namespace dovetail::pipeline
