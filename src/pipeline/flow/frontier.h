#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "pipeline/flow/column_plan.h"

namespace dovetail::pipeline {

enum class CellOrder : std::uint8_t {
  kFinishFirst,  // by (priority, depth from the sink, record): rows that are begun are finished
  kFair,         // by (priority, cells of the column that were taken so far): columns in turns
};

struct FrontierOptions {
  std::uint64_t records = 0;  // may grow: set_records()
  std::uint64_t window = 0;   // records that are open at the same time, at most; at least 1
  // A queue with fewer ready cells than this opens records, if there are columns whose cells a new
  // record brings to it.
  std::uint32_t low_water = 1;
  CellOrder order = CellOrder::kFinishFirst;
  // Queues that take what they are given and bring nobody any waiting (expressions, samplers):
  // cells behind them count as brought by the record itself.
  std::vector<QueueId> instant;
};

// The cells that could be made now, in one ready queue per endpoint, and nothing else: a pure state
// machine without clock, thread or I/O. A cell becomes ready when the last cell that it needs ends;
// whoever has a free slot takes from its own queue alone. Both cost O(log of what is ready in the
// column + log of the columns of the queue), whatever waits elsewhere.
//
// Records are opened one after the other, by demand: when a queue runs low that a new record feeds.
// So nothing is materialised before its time, and `window` bounds memory, not speed. Per open
// record there are three bits for each column; records lie in pages that are given back when all of
// theirs have ended.
class Frontier {
 public:
  // `ended_before`: of a record that is about to be opened, the columns whose cells have ended in
  // an earlier run; may be empty. Called once per record, in their order.
  using EndedBefore = std::function<std::vector<ColumnId>(RecordId)>;

  // Every column needs only columns before it.
  Frontier(std::vector<ColumnPlan> columns, std::uint32_t queues, FrontierOptions options,
           EndedBefore ended_before = {});
  ~Frontier();
  Frontier(Frontier&&) noexcept;
  Frontier& operator=(Frontier&&) noexcept;

  // The next cell of a queue, which is the caller's until end() or give_back().
  std::optional<Cell> take(QueueId queue);

  // A taken cell was not made: it is ready again.
  void give_back(Cell cell);

  // A taken cell has ended, with a value or without; what needed only it becomes ready.
  void end(Cell cell);

  // Nothing more of an open record is to be begun; its taken cells still end. One that has ended is
  // left as it is.
  void drop(RecordId record);

  // Records all of whose cells have ended, or that were dropped and have no taken cell left; each
  // is told once, in the order in which they ended.
  std::optional<RecordId> next_ended();

  // There are so many records now, at least as many as before.
  void set_records(std::uint64_t records);

  // From now on at most so many records are open at the same time; those that are stay so.
  void set_window(std::uint64_t window) { options_.window = window; }

  std::uint64_t opened() const { return opened_; }  // records [0, opened()) have been opened
  std::uint64_t open() const { return open_; }      // of them, those that have not ended
  std::uint64_t ended() const { return opened_ - open_; }
  std::size_t ready(QueueId queue) const;
  std::size_t taken() const { return taken_; }
  bool done() const { return opened_ == options_.records && open_ == 0; }
  std::span<const std::uint32_t> depths() const { return depths_; }

 private:
  struct Page;
  struct Queue;
  struct Column;

  static constexpr std::uint64_t kPageRecords = 1024;
  // No record is opened while so many that have ended wait for next_ended(): their caller keeps
  // what is in them.
  static constexpr std::uint64_t kMostUntold = 4096;
  enum Mask : std::size_t { kEnded, kBegun, kTaken, kMasks };

  std::uint64_t untold() const { return ended_.size() - told_; }
  bool before(ColumnId a, ColumnId b) const;
  void refill(Queue& queue);
  void open_record();
  bool ready_now(RecordId record, ColumnId column) const;
  void make_ready(Cell cell);
  void make_ready_after(Cell ended);
  void drop_gone(Column& column);
  void update(ColumnId column);
  void sift(Queue& queue, std::size_t place);
  void settle(RecordId record);

  bool is_gone(RecordId record) const;
  bool has_ended(RecordId record) const;
  std::uint64_t* mask(RecordId record, Mask which) const;
  bool test(RecordId record, Mask which, ColumnId column) const;
  void set(RecordId record, Mask which, ColumnId column, bool value = true);

  FrontierOptions options_;
  EndedBefore ended_before_;
  std::size_t words_ = 0;
  std::vector<std::uint32_t> depths_;
  std::vector<Column> columns_;
  std::vector<Queue> queues_;
  std::vector<std::unique_ptr<Page>> pages_;
  std::vector<std::unique_ptr<Page>> spare_;
  std::vector<RecordId> ended_;  // not told yet, from told_ on
  std::size_t told_ = 0;
  std::uint64_t opened_ = 0;
  std::uint64_t open_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace dovetail::pipeline
