// What every store does, whatever database it is in.
#include "pipeline/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/store/test_run.h"

namespace dovetail::pipeline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Stores : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (auto why = missing(GetParam()); !why.empty()) GTEST_SKIP() << why;
    run_ = std::make_unique<TestRun>(GetParam());
  }
  std::unique_ptr<Store> open(OpenMode mode) { return run_->open(mode); }
  std::unique_ptr<Store> create(const std::vector<ColumnSpec>& columns) {
    auto store = open(OpenMode::kCreate);
    const auto found = store->reconcile(columns);
    EXPECT_TRUE(found) << found.error().message;
    return store;
  }
  TestRun& run() { return *run_; }

 private:
  std::unique_ptr<TestRun> run_;
};

INSTANTIATE_TEST_SUITE_P(Sqlite, Stores, testing::Values(Backend::kSqlite));
INSTANTIATE_TEST_SUITE_P(Postgres, Stores, testing::Values(Backend::kPostgres));

std::vector<ColumnSpec> four_columns() {
  return {column("seed", 1, true), column("text", 2), column("score", 3, true), column("judge", 4)};
}

TEST_P(Stores, KeepsCellsOfAllKinds) {
  std::vector<CellResult> cells;
  {
    auto store = create(four_columns());
    const std::uint32_t origin = store->origin({"small-model", {7, 8}});
    EXPECT_EQ(origin, store->origin({"small-model", {7, 8}}));
    EXPECT_EQ(origin + 1, store->origin({"small-model", {7, 9}}));
    cells = {value(0, 0, "1"),
             value(0, 1, std::string(100'000, 'x')),
             value(0, 2, ""),
             {0, 3, CellState::kFailed, "no answer after 3 attempts", {origin, 3, 0, 0, 77, 0}},
             {5, 0, CellState::kDropped, "score below 2", {}},
             {5, 3, CellState::kSkipped, "", {}},
             {(std::uint64_t{1} << 47) - 1,
              1,
              CellState::kValue,
              std::string("\0\xff", 2),
              {origin, 1, 0xffffffff, 0xffffffff, ~std::uint64_t{0}, ~std::uint64_t{0}}}};
    ASSERT_TRUE(put_and_wait(*store, cells));
    EXPECT_EQ(all_cells(*store), cells);
  }
  auto store = open(OpenMode::kResume);
  const auto again = store->reconcile(four_columns());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->deleted_cells, 0U);
  EXPECT_EQ(all_cells(*store), cells);
  const auto origins = store->origins();
  ASSERT_TRUE(origins);
  ASSERT_EQ(origins->size(), 2U);
  EXPECT_EQ(origins->at(1), (Origin{"small-model", {7, 9}}));
  EXPECT_EQ(store->origin({"small-model", {7, 9}}), 2U);
}

TEST_P(Stores, TellsWhetherThereIsARun) {
  for (const OpenMode mode : {OpenMode::kResume, OpenMode::kReadOnly}) {
    const auto refused = run().try_open(mode);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kNotFound) << refused.error().message;
  }
  create(four_columns()).reset();
  const auto refused = run().try_open(OpenMode::kCreate);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("`dovetail pipeline resume`"));
}

TEST_P(Stores, HasOneWriterAndAnyNumberOfReaders) {
  auto store = create(four_columns());
  const auto second = run().try_open(OpenMode::kResume);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::kUnavailable) << second.error().message;
  EXPECT_THAT(second.error().message, HasSubstr("process"));
  auto reader = open(OpenMode::kReadOnly);
  ASSERT_TRUE(put_and_wait(*store, {value(3, 1, "x")}));
  EXPECT_EQ(all_cells(*reader), std::vector{value(3, 1, "x")});
  EXPECT_EQ(put_and_wait(*reader, {value(4, 1, "x")}).error().kind, ErrorKind::kInvalid);
  EXPECT_FALSE(reader->set_property("a", "b"));
  EXPECT_FALSE(reader->reconcile(four_columns()));
  EXPECT_EQ(all_cells(*store).size(), 1U);
  store.reset();
  EXPECT_TRUE(run().try_open(OpenMode::kResume));
}

TEST_P(Stores, ReplacesCellsAndMergesSmallOnes) {
  auto store = create(four_columns());
  ASSERT_TRUE(put_and_wait(*store, {value(1, 2, "first"), value(1, 1, "old")}));
  ASSERT_TRUE(put_and_wait(*store, {value(1, 0, "later"), value(1, 1, "new")}));
  // Twice in one batch, against the order of the columns.
  store->put(std::vector{value(2, 2, "a"), value(2, 0, "b"), value(2, 3, "c")}, {});
  ASSERT_TRUE(put_and_wait(*store, {value(2, 3, "d"), value(2, 2, "e")}));
  const std::vector<CellResult> wanted = {value(1, 0, "later"), value(1, 1, "new"),
                                          value(1, 2, "first"), value(2, 0, "b"),
                                          value(2, 2, "e"),     value(2, 3, "d")};
  EXPECT_EQ(all_cells(*store), wanted);
  const auto record = store->read_record(2);
  ASSERT_TRUE(record);
  EXPECT_EQ(*record, std::vector(wanted.begin() + 3, wanted.end()));
  EXPECT_TRUE(store->read_record(0)->empty());
  EXPECT_TRUE(store->read_record(~std::uint64_t{0})->empty());
  EXPECT_EQ(*store->read_records(0, ~std::uint64_t{0}), wanted);
  EXPECT_EQ(*store->read_records(0, 2), std::vector(wanted.begin(), wanted.begin() + 3));
  EXPECT_TRUE(store->read_records(2, 2)->empty());
}

TEST_P(Stores, RefusesWhatTheRunCannotHold) {
  auto store = create(four_columns());
  std::vector<std::string> answers;
  const auto note = [&](const Status& status) {
    answers.push_back(status ? "" : status.error().message);
  };
  store->put(value(0, 0, "x"), note);
  store->put(std::vector{value(1, 0, "x"), value(1, 4, "x")}, note);
  store->put(value(std::uint64_t{1} << 47, 0, "x"), note);
  store->put(value(2, 1, "x"), note);
  ASSERT_TRUE(store->flush());
  EXPECT_THAT(answers, ElementsAre("", HasSubstr("column 4: the run has 4 columns"),
                                   HasSubstr("140737488355328"), ""));
  EXPECT_EQ(all_cells(*store), (std::vector{value(0, 0, "x"), value(2, 1, "x")}));
}

TEST_P(Stores, AnswersInTheOrderOfThePuts) {
  auto store = create(four_columns());
  std::vector<int> answered;
  for (int i = 0; i < 1000; ++i) {
    store->put(value(static_cast<std::uint64_t>(i), 1, "x"), [&, i](const Status& status) {
      ASSERT_TRUE(status);
      answered.push_back(i);
      if (i == 500) {
        store->put(value(5000, 1, "y"), [&](const Status&) { answered.push_back(5000); });
      }
    });
  }
  ASSERT_TRUE(store->flush());
  ASSERT_TRUE(store->flush());
  std::erase(answered, 5000);
  ASSERT_EQ(answered.size(), 1000U);
  EXPECT_TRUE(std::is_sorted(answered.begin(), answered.end()));
  EXPECT_EQ(all_cells(*store).size(), 1001U);
}

TEST_P(Stores, RemakesChangedColumns) {
  using Change = Reconciliation::Change;
  auto store = create(four_columns());
  for (std::uint64_t record = 0; record < 5000; ++record) {
    store->put(std::vector{value(record, 0, "s"), value(record, 1, "t"), value(record, 2, "u")},
               {});
  }
  ASSERT_TRUE(put_and_wait(*store, {value(9, 3, "judged")}));
  // `seed` is gone, `text` stays, `score` is remade, `judge` comes first, `more` is new.
  const std::vector<ColumnSpec> next = {column("judge", 4), column("text", 2),
                                        column("score", 30, true), column("more", 5, true)};
  const auto planned = store->compare(next);
  ASSERT_TRUE(planned);
  EXPECT_THAT(planned->columns,
              ElementsAre(Change::kKept, Change::kKept, Change::kRemade, Change::kAdded));
  EXPECT_THAT(planned->removed, ElementsAre("seed"));
  EXPECT_EQ(all_cells(*store).size(), 15'001U);
  const auto done = store->reconcile(next);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->columns, planned->columns);
  EXPECT_EQ(done->deleted_cells, 10'000U);
  EXPECT_EQ(*store->read_record(9), (std::vector{value(9, 0, "judged"), value(9, 1, "t")}));
  ASSERT_TRUE(put_and_wait(*store, {value(9, 3, "m")}));
  store.reset();
  store = open(OpenMode::kReadOnly);
  EXPECT_EQ(store->read_record(9)->size(), 3U);
  const auto counts = store->counts();
  ASSERT_TRUE(counts);
  const std::array<std::uint64_t, kCellStates> none{};
  EXPECT_THAT(*counts, ElementsAre(std::array<std::uint64_t, kCellStates>{1, 0, 0, 0},
                                   std::array<std::uint64_t, kCellStates>{5000, 0, 0, 0}, none,
                                   std::array<std::uint64_t, kCellStates>{1, 0, 0, 0}));
  const auto columns = store->columns();
  ASSERT_TRUE(columns);
  EXPECT_EQ(columns->at(2).name, "score");
  EXPECT_EQ(columns->at(2).fingerprint.high, 30U);
}

TEST_P(Stores, RefusesAColumnTwice) {
  auto store = open(OpenMode::kCreate);
  const auto twice = store->reconcile(std::vector{column("a", 1), column("a", 2)});
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("column a"));
}

TEST_P(Stores, ReadingEndsWhenAsked) {
  auto store = create(four_columns());
  for (std::uint64_t record = 0; record < 100; ++record) store->put(value(record, 1, "x"), {});
  ASSERT_TRUE(store->flush());
  int seen = 0;
  ASSERT_TRUE(store->for_each_cell([&](const CellView& cell) {
    // Other questions may be asked meanwhile.
    EXPECT_EQ(store->read_record(cell.record)->size(), 1U);
    return ++seen < 7;
  }));
  EXPECT_EQ(seen, 7);
}

TEST_P(Stores, KeepsProperties) {
  const std::string bytes("line\nwith \0 and '", 17);
  {
    auto store = open(OpenMode::kCreate);
    ASSERT_TRUE(store->set_property("file", "old"));
    ASSERT_TRUE(store->set_property("file", bytes));
    ASSERT_TRUE(store->set_property("", ""));
    ASSERT_TRUE(store->reconcile(four_columns()));
  }
  auto store = open(OpenMode::kReadOnly);
  EXPECT_EQ(**store->property("file"), bytes);
  EXPECT_EQ(**store->property(""), "");
  EXPECT_FALSE(store->property("columns")->has_value());
}

TEST_P(Stores, AddsUpWhatIsSpent) {
  {
    auto store = create(four_columns());
    store->spend(5);
    store->put(value(0, 1, "x"), {});
    store->spend(0);
    store->spend(7);
    ASSERT_TRUE(store->flush());
    EXPECT_EQ(*store->spent(), 12U);
    EXPECT_EQ(store->known_spent(), 12U);
  }
  {
    auto store = open(OpenMode::kResume);
    std::vector<ColumnSpec> changed = four_columns();
    changed[1].fingerprint.low = 77;
    ASSERT_TRUE(store->reconcile(changed));
    EXPECT_EQ(store->known_spent(), 0U) << "nobody has asked";
    store->spend(1);
    ASSERT_TRUE(store->flush());
    EXPECT_EQ(store->known_spent(), 13U);
  }
  EXPECT_EQ(*open(OpenMode::kReadOnly)->spent(), 13U) << "what was paid for is paid for";
}

TEST_P(Stores, RemembersResponsesAndForgetsTheOldest) {
  run().options.cache_bytes = 2500;
  {
    auto store = create(four_columns());
    store->remember({1, 2}, std::string(1000, 'a'));
    store->remember({2, 2}, std::string(1000, 'b'));
    store->remember({1, 2}, "another one");
    store->remember({3, 3}, std::string(3000, 'c'));
    ASSERT_TRUE(store->flush());
    EXPECT_EQ(**store->cached({1, 2}), std::string(1000, 'a'));
    EXPECT_EQ(**store->cached({2, 2}), std::string(1000, 'b'));
    EXPECT_FALSE(store->cached({3, 3})->has_value());
  }
  auto store = open(OpenMode::kResume);
  store->remember({4, 4}, std::string(1000, 'd'));
  ASSERT_TRUE(store->flush());
  // What is put away after a commit is gone when the next one is answered.
  ASSERT_TRUE(put_and_wait(*store, {value(0, 1, "x")}));
  EXPECT_FALSE(store->cached({1, 2})->has_value());
  EXPECT_EQ(**store->cached({2, 2}), std::string(1000, 'b'));
  EXPECT_EQ(**store->cached({4, 4}), std::string(1000, 'd'));
}

// With an hour between two commits, whoever has nothing else to do need not wait for it.
TEST_P(Stores, CommitsAtOnceWhereItIsHurried) {
  run().options.commit_every = std::chrono::hours(1);
  auto store = create(four_columns());
  store->hurry();
  ASSERT_TRUE(put_and_wait(*store, {value(0, 1, "\"first\"")}));
  std::promise<Status> answered;
  store->put(value(1, 1, "\"second\""), [&](Status status) { answered.set_value(status); });
  store->hurry();
  EXPECT_TRUE(answered.get_future().get());
  EXPECT_EQ(store->read_record(1)->size(), 1U);
}

TEST_P(Stores, RemembersLaterWhatCellsHold) {
  run().options.responses_every = std::chrono::hours(1);
  {
    auto store = create(four_columns());
    store->remember_later({1, 2}, "one");
    store->remember({2, 2}, "two");
    std::promise<Status> answered;
    store->put(value(0, 1, "\"x\""), [&](Status status) { answered.set_value(status); });
    store->hurry();
    ASSERT_TRUE(answered.get_future().get());
    EXPECT_FALSE(store->cached({1, 2})->has_value()) << "it waits for others";
    EXPECT_TRUE(store->cached({2, 2})->has_value());
    ASSERT_TRUE(store->flush());
    EXPECT_EQ(store->cached({1, 2})->value_or(""), "one");
    store->remember_later({3, 2}, "three");
  }
  run().options.responses_every = std::chrono::milliseconds(1);
  auto store = open(OpenMode::kResume);
  EXPECT_EQ(store->cached({3, 2})->value_or(""), "three") << "closing commits it";
  store->remember_later({4, 2}, "four");
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!store->cached({4, 2})->has_value() && std::chrono::steady_clock::now() < late) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(store->cached({4, 2})->value_or(""), "four") << "nothing else is written";
}

// Many responses and nothing else: those who put wait for room, and the writer for nothing.
TEST_P(Stores, ResponsesThatWaitAreBounded) {
  run().options.responses_every = std::chrono::hours(1);
  run().options.commit_every = std::chrono::hours(1);
  run().options.queue_bytes = 1000;
  auto store = create(four_columns());
  for (std::uint64_t i = 0; i < 100; ++i) store->remember_later({i, i}, std::string(100, 'a'));
  EXPECT_TRUE(store->cached({0, 0})->has_value());
}

// Random puts, columns and reopenings against a map.
TEST_P(Stores, IsAMapThatLasts) {
  std::mt19937_64 random(19);
  std::vector<ColumnSpec> columns = four_columns();
  std::map<std::pair<std::uint64_t, std::uint32_t>, CellResult> wanted;
  auto store = create(columns);
  for (int round = 0; round < 30; ++round) {
    for (int puts = static_cast<int>(random() % 60); puts > 0; --puts) {
      std::vector<CellResult> cells;
      for (std::uint64_t count = random() % 6; count > 0; --count) {
        CellResult cell = value(random() % 12, static_cast<std::uint32_t>(random() % 4),
                                std::string(random() % 50, static_cast<char>(random())));
        cell.state = static_cast<CellState>(random() % (kCellStates + 1));
        if (cell.state == CellState::kForgotten) {
          cell.json.clear();
          wanted.erase({cell.record, cell.column});
        } else {
          if (random() % 2 == 0) cell.provenance.latency_us = random();
          if (random() % 4 == 0) cell.provenance.cut = true;
          wanted[{cell.record, cell.column}] = cell;
        }
        cells.push_back(std::move(cell));
      }
      store->put(cells, [](const Status& status) { EXPECT_TRUE(status); });
      if (random() % 16 == 0) {
        ASSERT_TRUE(store->flush());
      }
    }
    if (random() % 3 == 0) {
      store.reset();
      store = open(OpenMode::kResume);
      const auto changed = static_cast<std::uint32_t>(random() % 8);
      if (changed < 4) {
        ++columns[changed].fingerprint.low;
        std::erase_if(wanted, [&](const auto& cell) { return cell.first.second == changed; });
      }
      ASSERT_TRUE(store->reconcile(columns));
    }
    ASSERT_TRUE(store->flush());
    std::vector<CellResult> cells;
    for (const auto& [place, cell] : wanted) cells.push_back(cell);
    ASSERT_EQ(all_cells(*store), cells);
  }
}

}  // namespace
}  // namespace dovetail::pipeline
