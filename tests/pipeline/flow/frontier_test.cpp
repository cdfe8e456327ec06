#include "pipeline/flow/frontier.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace dovetail::pipeline {
namespace {

using Columns = std::vector<ColumnPlan>;

FrontierOptions options(std::uint64_t records, std::uint64_t window = 1000) {
  FrontierOptions result;
  result.records = records;
  result.window = window;
  return result;
}

std::vector<Cell> take_all(Frontier& frontier, QueueId queue) {
  std::vector<Cell> cells;
  while (const auto cell = frontier.take(queue)) cells.push_back(*cell);
  return cells;
}

std::vector<RecordId> ended(Frontier& frontier) {
  std::vector<RecordId> records;
  while (const auto record = frontier.next_ended()) records.push_back(*record);
  return records;
}

TEST(Frontier, DepthIsTheLongestWayToASink) {
  // A chain 0 1 2 beside a short cut 0 3, and one that nobody needs.
  EXPECT_EQ(depths_from_sink({{{}}, {{0}}, {{1}}, {{0}}, {{}}}),
            (std::vector<std::uint32_t>{2, 1, 0, 0, 0}));
}

TEST(Frontier, ACellIsReadyWithTheLastThatItNeeds) {
  Frontier frontier(Columns{{{}, 0}, {{}, 0}, {{0, 1}, 1}}, 2, options(1));
  EXPECT_FALSE(frontier.take(1));
  const auto cells = take_all(frontier, 0);
  ASSERT_EQ(cells, (std::vector<Cell>{{0, 0}, {0, 1}}));
  frontier.end(cells[0]);
  EXPECT_FALSE(frontier.take(1));
  frontier.end(cells[1]);
  const auto last = frontier.take(1);
  ASSERT_EQ(last, (Cell{0, 2}));
  EXPECT_FALSE(frontier.done());
  frontier.end(*last);
  EXPECT_EQ(ended(frontier), std::vector<RecordId>{0});
  EXPECT_TRUE(frontier.done());
}

TEST(Frontier, FinishesWhatIsBegunFirst) {
  Frontier frontier(Columns{{{}, 0}, {{0}, 0}}, 1, options(3));
  EXPECT_EQ(frontier.take(0), (Cell{0, 0}));
  EXPECT_EQ(frontier.take(0), (Cell{1, 0}));
  frontier.end({1, 0});
  EXPECT_EQ(frontier.take(0), (Cell{1, 1})) << "nearer to the sink than record 2's first";
  frontier.end({0, 0});
  EXPECT_EQ(frontier.take(0), (Cell{0, 1}));
  EXPECT_EQ(frontier.take(0), (Cell{2, 0}));
}

TEST(Frontier, PriorityGoesBeforeDepth) {
  Frontier frontier(Columns{{{}, 0, -1}, {{0}, 0, 0}}, 1, options(2));
  EXPECT_EQ(frontier.take(0), (Cell{0, 0}));
  frontier.end({0, 0});
  EXPECT_EQ(frontier.take(0), (Cell{0, 1})) << "a record is opened when nothing is ready";
  EXPECT_EQ(frontier.take(0), (Cell{1, 0}));
}

TEST(Frontier, FairTakesColumnsInTurns) {
  FrontierOptions fair = options(4);
  fair.order = CellOrder::kFair;
  fair.low_water = 100;
  Frontier frontier(Columns{{{}, 0}, {{}, 0}}, 1, fair);
  EXPECT_EQ(take_all(frontier, 0),
            (std::vector<Cell>{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}, {2, 1}, {3, 0}, {3, 1}}));
}

TEST(Frontier, OpensNoMoreThanTheWindow) {
  Frontier frontier(Columns{{{}, 0}, {{0}, 1}}, 2, options(10, 2));
  EXPECT_EQ(take_all(frontier, 0).size(), 2U);
  frontier.end({0, 0});
  EXPECT_FALSE(frontier.take(0));
  EXPECT_EQ(frontier.take(1), (Cell{0, 1}));
  frontier.end({0, 1});
  EXPECT_EQ(frontier.take(0), (Cell{2, 0}));
}

// Records whose cells an earlier run has made are opened in portions, not all at once.
TEST(Frontier, WaitsForEndedRecordsToBeTaken) {
  Frontier frontier(Columns{{{}, 0}}, 1, options(20'000, 10),
                    [](RecordId) { return std::vector<ColumnId>{0}; });
  std::uint64_t told = 0, most = 0;
  while (!frontier.done() || told < 20'000) {
    EXPECT_FALSE(frontier.take(0));
    const std::uint64_t before = told;
    while (frontier.next_ended()) ++told;
    most = std::max(most, told - before);
    ASSERT_GT(told, before);
  }
  EXPECT_LE(most, 4096U);
}

// Behind a sampler on queue 2 a generator is fed as if it were first: neither the whole window is
// opened for it nor too little.
TEST(Frontier, OpensRecordsForWhatInstantColumnsBring) {
  FrontierOptions demand = options(100, 50);
  demand.instant = {2};
  demand.low_water = 3;
  Frontier frontier(Columns{{{}, 2}, {{0}, 0}, {{1}, 1}}, 3, demand);
  EXPECT_FALSE(frontier.take(2)) << "nobody asked yet";
  EXPECT_FALSE(frontier.take(1)) << "it is not fed by records";
  EXPECT_EQ(frontier.opened(), 0U);
  EXPECT_FALSE(frontier.take(0));
  EXPECT_EQ(frontier.opened(), 3U);
  EXPECT_FALSE(frontier.take(0));
  EXPECT_EQ(frontier.opened(), 3U) << "what was opened is still to come";
  for (const Cell cell : take_all(frontier, 2)) frontier.end(cell);
  EXPECT_EQ(frontier.take(0), (Cell{0, 1}));
  EXPECT_EQ(frontier.take(0), (Cell{1, 1}));
  EXPECT_EQ(frontier.opened(), 4U);
}

TEST(Frontier, WhatHasEndedBeforeIsNotMadeAgain) {
  Frontier frontier(Columns{{{}, 0}, {{0}, 0}}, 1, options(3), [](RecordId record) {
    return record == 0   ? std::vector<ColumnId>{0, 1}
           : record == 1 ? std::vector<ColumnId>{0}
                         : std::vector<ColumnId>{};
  });
  EXPECT_EQ(take_all(frontier, 0), (std::vector<Cell>{{1, 1}, {2, 0}}));
  EXPECT_EQ(ended(frontier), std::vector<RecordId>{0});
}

// Over the border of a page, with records that end before and after others have come.
TEST(Frontier, RecordsMayBeAddedAtTheEnd) {
  constexpr std::uint64_t kStep = 700, kSteps = 5;
  Frontier frontier(Columns{{{}, 0}, {{0}, 1}}, 2, options(0, 2 * kStep));
  EXPECT_TRUE(frontier.done());
  EXPECT_FALSE(frontier.take(0));
  std::vector<RecordId> told;
  for (std::uint64_t records = kStep; records <= kSteps * kStep; records += kStep) {
    frontier.set_records(records);
    EXPECT_FALSE(frontier.done());
    for (const Cell cell : take_all(frontier, 0)) frontier.end(cell);
    for (const Cell cell : take_all(frontier, 1)) {
      if (cell.record % 3 == 0) frontier.drop(cell.record);
      frontier.end(cell);
      frontier.drop(cell.record);  // it has ended
    }
    for (const RecordId record : ended(frontier)) told.push_back(record);
    EXPECT_TRUE(frontier.done());
  }
  ASSERT_EQ(told.size(), kSteps * kStep);
  for (RecordId record = 0; record < told.size(); ++record) EXPECT_EQ(told[record], record);
}

TEST(Frontier, ADroppedRecordEndsWithItsLastTakenCell) {
  FrontierOptions eager = options(3);
  eager.low_water = 10;
  Frontier frontier(Columns{{{}, 0}, {{}, 1}, {{0}, 1}}, 2, eager);
  ASSERT_EQ(frontier.take(0), (Cell{0, 0}));
  EXPECT_EQ(frontier.ready(1), 3U);
  frontier.drop(0);
  EXPECT_EQ(frontier.ready(1), 2U);
  EXPECT_TRUE(ended(frontier).empty());
  frontier.end({0, 0});
  EXPECT_EQ(ended(frontier), std::vector<RecordId>{0});
  EXPECT_EQ(take_all(frontier, 1), (std::vector<Cell>{{1, 1}, {2, 1}}));
  frontier.drop(1);
  frontier.drop(1);
  frontier.give_back({1, 1});
  EXPECT_EQ(ended(frontier), std::vector<RecordId>{1});
}

// The slow and obvious one: looks at every cell of every open record.
class Books {
 public:
  Books(const Columns& columns, const FrontierOptions& options)
      : columns_(columns), options_(options), depths_(depths_from_sink(columns)) {}

  void open(RecordId record) { states_[record].assign(columns_.size(), kNone); }

  std::optional<Cell> best(QueueId queue) const {
    std::optional<Cell> best;
    for (const auto& [record, state] : states_) {
      if (dropped_.contains(record)) continue;
      for (ColumnId column = 0; column < columns_.size(); ++column) {
        if (columns_[column].queue != queue || !ready(record, column)) continue;
        const Cell cell{record, column};
        if (!best || key(cell) < key(*best)) best = cell;
      }
    }
    return best;
  }
  bool ready(RecordId record, ColumnId column) const {
    const auto& state = states_.at(record);
    return state[column] == kNone &&
           std::all_of(columns_[column].needs.begin(), columns_[column].needs.end(),
                       [&](ColumnId need) { return state[need] == kEnded; });
  }
  std::size_t count(QueueId queue) const {
    std::size_t count = 0;
    for (const auto& [record, state] : states_) {
      for (ColumnId column = 0; column < columns_.size(); ++column) {
        count +=
            !dropped_.contains(record) && columns_[column].queue == queue && ready(record, column);
      }
    }
    return count;
  }
  void take(Cell cell) {
    states_[cell.record][cell.column] = kTaken;
    ++served_[cell.column];
  }
  void end(Cell cell) {
    states_[cell.record][cell.column] = kEnded;
    settle(cell.record);
  }
  void give_back(Cell cell) {
    states_[cell.record][cell.column] = kNone;
    if (!dropped_.contains(cell.record)) --served_[cell.column];
    settle(cell.record);
  }
  void drop(RecordId record) {
    dropped_.insert(record);
    settle(record);
  }
  std::vector<Cell> taken() const {
    std::vector<Cell> cells;
    for (const auto& [record, state] : states_) {
      for (ColumnId column = 0; column < columns_.size(); ++column) {
        if (state[column] == kTaken) cells.push_back({record, column});
      }
    }
    return cells;
  }
  std::vector<RecordId> open_records() const {
    std::vector<RecordId> records;
    for (const auto& [record, state] : states_) records.push_back(record);
    return records;
  }
  std::vector<RecordId> ended;

 private:
  enum State { kNone, kTaken, kEnded };

  std::tuple<std::int64_t, std::uint64_t, RecordId, ColumnId> key(Cell cell) const {
    const auto served = served_.find(cell.column);
    const bool fair = options_.order == CellOrder::kFair;
    const std::uint64_t second = !fair                     ? depths_[cell.column]
                                 : served == served_.end() ? 0
                                                           : served->second;
    // In turns the column decides before the record.
    return {columns_[cell.column].priority, second, fair ? cell.column : cell.record,
            fair ? static_cast<ColumnId>(cell.record) : cell.column};
  }
  void settle(RecordId record) {
    const auto& state = states_.at(record);
    const bool over =
        dropped_.contains(record)
            ? std::find(state.begin(), state.end(), kTaken) == state.end()
            : std::all_of(state.begin(), state.end(), [](State s) { return s == kEnded; });
    if (!over) return;
    ended.push_back(record);
    states_.erase(record);
  }

  const Columns& columns_;
  const FrontierOptions& options_;
  std::vector<std::uint32_t> depths_;
  std::map<RecordId, std::vector<State>> states_;
  std::set<RecordId> dropped_;
  std::map<ColumnId, std::uint64_t> served_;
};

// Random graphs, windows, orders and histories: what is taken is what the books say, everything
// ends, each record is told once.
TEST(Frontier, TakesWhatIsFirstOfAllThatIsReady) {
  EXPECT_TRUE(rc::check([] {
    const auto pick = [](std::uint32_t below) {
      return *rc::gen::inRange<std::uint32_t>(0, below);
    };
    Columns columns(1 + pick(7));
    const std::uint32_t queues = 1 + pick(3);
    for (ColumnId column = 0; column < columns.size(); ++column) {
      columns[column].queue = pick(queues);
      columns[column].priority = static_cast<std::int32_t>(pick(2));
      for (ColumnId need = 0; need < column; ++need) {
        if (pick(3) == 0) columns[column].needs.push_back(need);
      }
    }
    FrontierOptions random = options(1 + pick(12), 1 + pick(6));
    random.low_water = 1 + pick(8);
    random.order = pick(2) == 0 ? CellOrder::kFair : CellOrder::kFinishFirst;
    if (pick(2) == 0) random.instant = {pick(queues)};
    Frontier frontier(columns, queues, random);
    Books books(columns, random);
    std::uint64_t opened = 0;
    std::vector<RecordId> told;
    int idle = 0;
    while (!frontier.done()) {
      const std::uint32_t verb = idle < 20 ? pick(10) : 9;
      const auto taken = books.taken();
      if (verb < 5 || taken.empty()) {
        const QueueId queue = idle < 20 ? pick(queues) : static_cast<QueueId>(idle) % queues;
        const auto cell = frontier.take(queue);
        for (; opened < frontier.opened(); ++opened) books.open(opened);
        RC_ASSERT(cell == books.best(queue));
        if (cell) books.take(*cell);
        idle = cell ? 0 : idle + 1;
        RC_ASSERT(idle < 100);
      } else if (verb == 5 && pick(4) == 0) {
        const auto open = books.open_records();
        const RecordId record = open[pick(static_cast<std::uint32_t>(open.size()))];
        frontier.drop(record);
        books.drop(record);
      } else {
        const Cell cell = taken[pick(static_cast<std::uint32_t>(taken.size()))];
        if (verb == 6) {
          frontier.give_back(cell);
          books.give_back(cell);
        } else {
          frontier.end(cell);
          books.end(cell);
        }
        idle = 0;
      }
      while (const auto record = frontier.next_ended()) told.push_back(*record);
      RC_ASSERT(told == books.ended);
      RC_ASSERT(frontier.open() <= random.window);
      RC_ASSERT(frontier.taken() == books.taken().size());
      for (QueueId queue = 0; queue < queues; ++queue)
        RC_ASSERT(frontier.ready(queue) == books.count(queue));
    }
    RC_ASSERT(told.size() == random.records);
  }));
}

}  // namespace
}  // namespace dovetail::pipeline
