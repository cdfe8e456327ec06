#include "pipeline/flow/frontier.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <limits>

namespace dovetail::pipeline {
namespace {

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

}  // namespace

std::vector<std::uint32_t> depths_from_sink(const std::vector<ColumnPlan>& columns) {
  std::vector<std::uint32_t> depths(columns.size(), 0);
  for (std::size_t column = columns.size(); column > 0; --column) {
    for (const ColumnId need : columns[column - 1].needs) {
      depths[need] = std::max(depths[need], depths[column - 1] + 1);
    }
  }
  return depths;
}

struct Frontier::Page {
  std::vector<std::uint64_t> masks;    // [kPageRecords][kMasks][words_]
  std::vector<std::uint8_t> dropped;   // [kPageRecords]
  std::uint64_t opened = 0, open = 0;  // records
};

// The columns of a queue that have ready cells, as a heap: the one whose turn it is on top.
struct Frontier::Queue {
  std::vector<ColumnId> heap;
  std::size_t ready = 0;   // cells
  std::size_t coming = 0;  // of open records, cells that wait only for what is made at once
  bool opens_records = false;
};

struct Frontier::Column {
  ColumnPlan plan;
  std::vector<ColumnId> needed_by;
  // A heap, the oldest record on top. Those that were dropped leave it when they get there.
  std::vector<RecordId> ready;
  std::size_t place = kNowhere;  // in the heap of its queue
  bool brought = false;  // its cells are ready, or wait for what is made at once, in a new record
  std::uint64_t served = 0;
};

Frontier::Frontier(std::vector<ColumnPlan> columns, std::uint32_t queues, FrontierOptions options,
                   EndedBefore ended_before)
    : options_(std::move(options)),
      ended_before_(std::move(ended_before)),
      words_((columns.size() + 63) / 64),
      depths_(depths_from_sink(columns)),
      columns_(columns.size()),
      queues_(queues) {
  assert(options_.window > 0 && !columns.empty());
  const auto is_instant = [&](QueueId queue) {
    return std::find(options_.instant.begin(), options_.instant.end(), queue) !=
           options_.instant.end();
  };
  for (ColumnId column = 0; column < columns.size(); ++column) {
    const ColumnPlan& plan = columns[column];
    assert(plan.queue < queues);
    columns_[column].brought =
        std::all_of(plan.needs.begin(), plan.needs.end(), [&](ColumnId need) {
          assert(need < column);
          return columns_[need].brought && is_instant(columns[need].queue);
        });
    for (const ColumnId need : plan.needs) columns_[need].needed_by.push_back(column);
    if (columns_[column].brought) queues_[plan.queue].opens_records = true;
    columns_[column].plan = plan;
  }
  // Where others make cells, records are opened for them and not for what is made at once.
  const bool only_instant =
      std::all_of(columns.begin(), columns.end(),
                  [&](const ColumnPlan& plan) { return is_instant(plan.queue); });
  if (!only_instant) {
    for (const QueueId queue : options_.instant) queues_[queue].opens_records = false;
  }
  set_records(options_.records);
}

void Frontier::set_records(std::uint64_t records) {
  assert(records >= options_.records);
  options_.records = records;
  pages_.resize((records + kPageRecords - 1) / kPageRecords);
}

Frontier::~Frontier() = default;
Frontier::Frontier(Frontier&&) noexcept = default;
Frontier& Frontier::operator=(Frontier&&) noexcept = default;

std::optional<Cell> Frontier::take(QueueId id) {
  Queue& queue = queues_[id];
  refill(queue);
  if (queue.heap.empty()) return std::nullopt;
  Column& column = columns_[queue.heap.front()];
  const Cell cell{column.ready.front(), queue.heap.front()};
  std::pop_heap(column.ready.begin(), column.ready.end(), std::greater<>());
  column.ready.pop_back();
  drop_gone(column);
  --queue.ready;
  ++column.served;
  update(cell.column);
  set(cell.record, kTaken, cell.column);
  ++taken_;
  return cell;
}

void Frontier::give_back(Cell cell) {
  assert(test(cell.record, kTaken, cell.column));
  set(cell.record, kTaken, cell.column, false);
  --taken_;
  if (is_gone(cell.record)) return settle(cell.record);
  --columns_[cell.column].served;
  make_ready(cell);
}

void Frontier::end(Cell cell) {
  assert(test(cell.record, kTaken, cell.column));
  set(cell.record, kTaken, cell.column, false);
  set(cell.record, kEnded, cell.column);
  --taken_;
  if (!is_gone(cell.record)) make_ready_after(cell);
  settle(cell.record);
}

void Frontier::drop(RecordId record) {
  if (is_gone(record) || has_ended(record)) return;
  pages_[record / kPageRecords]->dropped[record % kPageRecords] = 1;
  for (ColumnId id = 0; id < columns_.size(); ++id) {
    Column& column = columns_[id];
    Queue& queue = queues_[column.plan.queue];
    if (!test(record, kBegun, id)) {
      if (column.brought) --queue.coming;
    } else if (!test(record, kEnded, id) && !test(record, kTaken, id)) {
      --queue.ready;
      drop_gone(column);
      update(id);
    }
  }
  settle(record);
}

std::optional<RecordId> Frontier::next_ended() {
  if (told_ == ended_.size()) {
    ended_.clear();
    told_ = 0;
    return std::nullopt;
  }
  return ended_[told_++];
}

std::size_t Frontier::ready(QueueId queue) const { return queues_[queue].ready; }

// True: a goes before b, among columns of one queue that have ready cells.
bool Frontier::before(ColumnId a, ColumnId b) const {
  const Column& left = columns_[a];
  const Column& right = columns_[b];
  if (left.plan.priority != right.plan.priority) return left.plan.priority < right.plan.priority;
  if (options_.order == CellOrder::kFair) {
    if (left.served != right.served) return left.served < right.served;
  } else {
    if (depths_[a] != depths_[b]) return depths_[a] < depths_[b];
    if (left.ready.front() != right.ready.front()) return left.ready.front() < right.ready.front();
  }
  return a < b;
}

// Opens records while the queue runs low and a new record would feed it.
void Frontier::refill(Queue& queue) {
  while (queue.opens_records && queue.ready + queue.coming < options_.low_water &&
         opened_ < options_.records && open_ < options_.window && untold() < kMostUntold) {
    open_record();
  }
}

void Frontier::open_record() {
  const RecordId record = opened_++;
  std::unique_ptr<Page>& page = pages_[record / kPageRecords];
  if (!page) {
    if (spare_.empty()) spare_.push_back(std::make_unique<Page>());
    page = std::move(spare_.back());
    spare_.pop_back();
    page->masks.assign(kPageRecords * kMasks * words_, 0);
    page->dropped.assign(kPageRecords, 0);
    page->open = page->opened = 0;
  }
  ++open_;
  ++page->open;
  ++page->opened;
  if (ended_before_) {
    for (const ColumnId column : ended_before_(record)) {
      set(record, kEnded, column);
      set(record, kBegun, column);
    }
  }
  for (ColumnId column = 0; column < columns_.size(); ++column) {
    if (test(record, kBegun, column)) continue;
    if (columns_[column].brought) ++queues_[columns_[column].plan.queue].coming;
    if (ready_now(record, column)) make_ready({record, column});
  }
  settle(record);
}

bool Frontier::ready_now(RecordId record, ColumnId column) const {
  if (test(record, kBegun, column)) return false;
  const auto& needs = columns_[column].plan.needs;
  return std::all_of(needs.begin(), needs.end(),
                     [&](ColumnId need) { return test(record, kEnded, need); });
}

void Frontier::make_ready_after(Cell ended) {
  for (const ColumnId column : columns_[ended.column].needed_by) {
    if (ready_now(ended.record, column)) make_ready({ended.record, column});
  }
}

void Frontier::make_ready(Cell cell) {
  Column& column = columns_[cell.column];
  Queue& queue = queues_[column.plan.queue];
  if (column.brought && !test(cell.record, kBegun, cell.column)) --queue.coming;
  set(cell.record, kBegun, cell.column);
  column.ready.push_back(cell.record);
  std::push_heap(column.ready.begin(), column.ready.end(), std::greater<>());
  ++queue.ready;
  update(cell.column);
}

// Leaves a record on top of the column's heap that still wants its cell.
void Frontier::drop_gone(Column& column) {
  while (!column.ready.empty() && is_gone(column.ready.front())) {
    std::pop_heap(column.ready.begin(), column.ready.end(), std::greater<>());
    column.ready.pop_back();
  }
}

// Puts a column where it belongs in its queue, now that its ready cells have changed.
void Frontier::update(ColumnId id) {
  Column& column = columns_[id];
  Queue& queue = queues_[column.plan.queue];
  if (column.ready.empty()) {
    if (column.place == kNowhere) return;
    const std::size_t place = column.place;
    column.place = kNowhere;
    const ColumnId last = queue.heap.back();
    queue.heap.pop_back();
    if (last == id) return;
    queue.heap[place] = last;
    columns_[last].place = place;
    return sift(queue, place);
  }
  if (column.place == kNowhere) {
    column.place = queue.heap.size();
    queue.heap.push_back(id);
  }
  sift(queue, column.place);
}

void Frontier::sift(Queue& queue, std::size_t place) {
  const ColumnId moved = queue.heap[place];
  const auto put = [&](std::size_t where, ColumnId id) {
    queue.heap[where] = id;
    columns_[id].place = where;
  };
  for (; place > 0 && before(moved, queue.heap[(place - 1) / 2]); place = (place - 1) / 2) {
    put(place, queue.heap[(place - 1) / 2]);
  }
  for (;;) {
    std::size_t child = 2 * place + 1;
    if (child >= queue.heap.size()) break;
    if (child + 1 < queue.heap.size() && before(queue.heap[child + 1], queue.heap[child])) ++child;
    if (!before(queue.heap[child], moved)) break;
    put(place, queue.heap[child]);
    place = child;
  }
  put(place, moved);
}

// Tells of a record that has ended, and gives its page back with the last one.
void Frontier::settle(RecordId record) {
  std::unique_ptr<Page>& page = pages_[record / kPageRecords];
  const std::uint64_t in_page = record % kPageRecords;
  if (page->dropped[in_page] != 0) {
    const std::uint64_t* taken = mask(record, kTaken);
    if (std::any_of(taken, taken + words_, [](std::uint64_t word) { return word != 0; })) return;
  } else if (!has_ended(record)) {
    return;
  }
  ended_.push_back(record);
  --open_;
  --page->open;
  if (page->open == 0 && page->opened == kPageRecords) spare_.push_back(std::move(page));
}

// It was dropped; its page may have been given back.
bool Frontier::is_gone(RecordId record) const {
  const std::unique_ptr<Page>& page = pages_[record / kPageRecords];
  return page == nullptr || page->dropped[record % kPageRecords] != 0;
}

// All of its cells have.
bool Frontier::has_ended(RecordId record) const {
  for (ColumnId column = 0; column < columns_.size(); ++column) {
    if (!test(record, kEnded, column)) return false;
  }
  return true;
}

std::uint64_t* Frontier::mask(RecordId record, Mask which) const {
  return pages_[record / kPageRecords]->masks.data() +
         (record % kPageRecords * kMasks + which) * words_;
}

bool Frontier::test(RecordId record, Mask which, ColumnId column) const {
  return (mask(record, which)[column / 64] >> (column % 64) & 1) != 0;
}

void Frontier::set(RecordId record, Mask which, ColumnId column, bool value) {
  std::uint64_t& word = mask(record, which)[column / 64];
  const std::uint64_t bit = std::uint64_t{1} << (column % 64);
  word = value ? word | bit : word & ~bit;
}

}  // namespace dovetail::pipeline
