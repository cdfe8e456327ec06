// What only a run in PostgreSQL can meet: several workers, a server that goes away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "pipeline/store/hunt/run_shape.h"
#include "pipeline/store/hunt_process.h"
#include "pipeline/store/lease.h"
#include "pipeline/store/mutation.h"
#include "pipeline/store/place.h"
#include "pipeline/store/test_run.h"

namespace dovetail::pipeline {
namespace {

using testing::HasSubstr;
using testing::Not;

class SharedRun : public testing::Test {
 protected:
  void SetUp() override {
    if (auto why = missing(Backend::kPostgres); !why.empty()) GTEST_SKIP() << why;
  }
};

// Every cell of so many records, each as it should be, each finished at most once, and those that
// were finished among them; empty where all is well.
std::string check_all(TestRun& run, std::uint64_t records, std::vector<std::uint64_t> said) {
  std::sort(said.begin(), said.end());
  if (std::adjacent_find(said.begin(), said.end()) != said.end()) return "a cell was made twice";
  auto store = run.try_open(OpenMode::kReadOnly);
  if (!store) return store.error().message;
  std::set<std::uint64_t> there;
  std::string wrong;
  const auto ok = (*store)->for_each_cell([&](const CellView& cell) {
    if (!is_run_cell(cell)) wrong = "a cell is not what was put";
    there.insert(cell.record * 8 + cell.column);
    return true;
  });
  if (!ok) return ok.error().message;
  if (!wrong.empty()) return wrong;
  if (there.size() != 4 * records) {
    return std::to_string(there.size()) + " cells of " + std::to_string(4 * records);
  }
  return std::includes(there.begin(), there.end(), said.begin(), said.end()) ? ""
                                                                             : "cells are lost";
}

// Some workers, of which one is killed.
std::string one_killed(int workers, std::uint64_t seed) {
  constexpr std::uint64_t kRecords = 600;
  TestRun run(Backend::kPostgres);
  std::mt19937_64 random(seed);
  const auto life = std::chrono::microseconds{random() % 250'000};
  std::vector<std::unique_ptr<Hunt>> hunts;
  std::vector<std::string> heard(static_cast<std::size_t>(workers));
  std::vector<std::thread> listeners;
  for (int i = 0; i < workers; ++i) {
    hunts.push_back(std::make_unique<Hunt>(StoreMutant::kNone, "work", run.where(), kRecords,
                                           run.options.run_name));
    listeners.emplace_back([&, i, hunt = hunts.back().get()] {
      heard[static_cast<std::size_t>(i)] =
          hunt->listen(i == 0 ? std::optional(life) : std::nullopt);
    });
  }
  for (std::thread& listener : listeners) listener.join();
  std::string wrong;
  std::vector<std::uint64_t> said;
  for (int i = 0; i < workers; ++i) {
    const int status = hunts[static_cast<std::size_t>(i)]->wait();
    if (i > 0 && status != 0) wrong = "a worker ended with " + std::to_string(status);
    const auto cells = cells_said(heard[static_cast<std::size_t>(i)]);
    said.insert(said.end(), cells.begin(), cells.end());
  }
  return wrong.empty() ? check_all(run, kRecords, said) : wrong;
}

TEST_F(SharedRun, OneOfTwoIsKilled) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(one_killed(2, seed), "") << seed;
}

TEST_F(SharedRun, OneOfFourIsKilled) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) EXPECT_EQ(one_killed(4, seed), "") << seed;
}

// The server dies three times while a run is being written.
std::string without_server(StoreMutant mutant, const std::string& mode, int workers,
                           std::chrono::milliseconds away = std::chrono::milliseconds{100}) {
  constexpr std::uint64_t kRecords = 2000;
  TestRun run(Backend::kPostgres);
  std::vector<std::unique_ptr<Hunt>> hunts;
  std::vector<std::string> heard(static_cast<std::size_t>(workers));
  std::vector<std::thread> listeners;
  std::latch begun(workers);
  for (int i = 0; i < workers; ++i) {
    hunts.push_back(
        std::make_unique<Hunt>(mutant, mode, run.where(), kRecords, run.options.run_name));
    listeners.emplace_back([&, i, hunt = hunts.back().get()] {
      heard[static_cast<std::size_t>(i)] = hunt->listen(std::nullopt, [&] { begun.count_down(); });
    });
  }
  begun.wait();
  std::mt19937_64 random(5);
  for (int i = 0; i < 3; ++i) {
    // At work for a while: who waits asks again every second.
    std::this_thread::sleep_for(away / 8 + std::chrono::milliseconds{150 + random() % 200});
    PgServer::shared().stop();
    std::this_thread::sleep_for(
        std::chrono::milliseconds{static_cast<std::uint64_t>(away.count()) + random() % 150});
    PgServer::shared().start();
  }
  for (std::thread& listener : listeners) listener.join();
  std::string wrong;
  std::vector<std::uint64_t> said;
  for (int i = 0; i < workers; ++i) {
    const int status = hunts[static_cast<std::size_t>(i)]->wait();
    if (status != 0) wrong = "a process ended with " + std::to_string(status);
    const auto cells = cells_said(heard[static_cast<std::size_t>(i)]);
    said.insert(said.end(), cells.begin(), cells.end());
  }
  return wrong.empty() ? check_all(run, kRecords, said) : wrong;
}

TEST_F(SharedRun, WaitsForTheServer) {
  EXPECT_EQ(without_server(StoreMutant::kNone, "some", 1), "");
}

TEST_F(SharedRun, WorkersWaitForTheServer) {
  EXPECT_EQ(without_server(StoreMutant::kNone, "work", 2), "");
}

TEST_F(SharedRun, WaitsTwentySecondsForTheServer) {
  if (std::getenv("DOVETAIL_LONG") == nullptr) GTEST_SKIP() << "takes long: set DOVETAIL_LONG";
  constexpr auto kAway = std::chrono::seconds{20};
  EXPECT_EQ(without_server(StoreMutant::kNone, "some", 1, kAway), "");
  EXPECT_EQ(without_server(StoreMutant::kNone, "work", 2, kAway), "");
}

TEST_F(SharedRun, ALostServerNoticesAForgottenBatch) {
  EXPECT_THAT(without_server(StoreMutant::kForgetFailed, "some", 1), HasSubstr(" cells of "));
}

TEST_F(SharedRun, ALostServerNoticesAMissingSync) {
  EXPECT_THAT(without_server(StoreMutant::kSyncSeldom, "some", 1), HasSubstr(" cells of "));
}

// One of the hunt's scenes: empty, or what went wrong.
std::string scene(StoreMutant mutant, const std::string& name) {
  TestRun run(Backend::kPostgres);
  Hunt hunt(mutant, name, run.where(), 0, run.options.run_name);
  const std::string said = hunt.listen(std::nullopt);
  const int status = hunt.wait();
  return status == 0 ? "" : "ended with " + std::to_string(status) + ": " + said;
}

TEST_F(SharedRun, AStaleLeaseCommitsNothing) {
  EXPECT_EQ(scene(StoreMutant::kNone, "stale"), "");
  EXPECT_THAT(scene(StoreMutant::kUnfenced, "stale"), HasSubstr("under a lost lease"));
}

TEST_F(SharedRun, ARangeHasOneHolder) {
  EXPECT_EQ(scene(StoreMutant::kNone, "contend"), "");
  EXPECT_THAT(scene(StoreMutant::kLeaseUnlocked, "contend"), HasSubstr("held by two"));
}

TEST_F(SharedRun, LeasesRunOut) {
  EXPECT_EQ(scene(StoreMutant::kNone, "expire"), "");
  EXPECT_THAT(scene(StoreMutant::kLeaseForever, "expire"), HasSubstr("does not run out"));
}

TEST_F(SharedRun, ASilentWorkerHoldsNobodyBack) {
  EXPECT_EQ(scene(StoreMutant::kNone, "silent"), "");
}

TEST_F(SharedRun, WorkersHaveTheSameColumns) {
  TestRun run(Backend::kPostgres);
  auto first = run.open(OpenMode::kShare);
  ASSERT_TRUE(first->reconcile(run_columns(1)));
  auto second = run.open(OpenMode::kShare);
  const auto others = second->reconcile(run_columns(2));
  ASSERT_FALSE(others);
  EXPECT_EQ(others.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(others.error().message, HasSubstr("join them"));
  ASSERT_TRUE(second->reconcile(run_columns(1)));
  EXPECT_EQ(second->origin({"a", {}}), 1U);
  EXPECT_EQ(first->origin({"b", {}}), 2U);
  EXPECT_EQ(first->origin({"a", {}}), 1U);
  EXPECT_EQ(second->origins()->size(), 2U);
  // Nobody takes the run for itself meanwhile.
  EXPECT_EQ(run.try_open(OpenMode::kResume).error().kind, ErrorKind::kUnavailable);
  first.reset();
  second.reset();
  // Changed columns make the ranges incomplete again.
  auto store = run.open(OpenMode::kShare);
  ASSERT_TRUE(store->reconcile(run_columns(1)));
  LeaseOptions options;
  options.records = 10;
  for (const std::uint64_t print : {2U, 3U}) {
    auto leases = Leases::open(*store, options);
    ASSERT_TRUE(leases) << leases.error().message;
    const auto range = (*leases)->take();
    ASSERT_TRUE(range && *range);
    ASSERT_TRUE((*leases)->complete(**range));
    EXPECT_FALSE((*leases)->take()->has_value());
    ASSERT_TRUE(store->reconcile(run_columns(print)));
    EXPECT_EQ((*leases)->progress()->complete, 0U);
  }
  // More records: the last range, which was cut short, goes on.
  {
    auto leases = Leases::open(*store, options);
    ASSERT_TRUE((*leases)->complete(**(*leases)->take()));
  }
  options.records = 300;
  auto leases = Leases::open(*store, options);
  EXPECT_EQ(**(*leases)->take(), (RecordRange{0, 256}));
  EXPECT_EQ(**(*leases)->take(), (RecordRange{256, 300}));
}

TEST_F(SharedRun, WorkersKnowWhatAllHaveSpent) {
  TestRun run(Backend::kPostgres);
  auto first = run.open(OpenMode::kShare);
  ASSERT_TRUE(first->reconcile(run_columns(1)));
  auto second = run.open(OpenMode::kShare);
  ASSERT_TRUE(second->reconcile(run_columns(1)));
  const auto spends = [](Store& store, std::uint64_t amount) {
    store.spend(amount);
    ASSERT_TRUE(store.flush());
  };
  spends(*first, 5);
  spends(*second, 7);
  EXPECT_EQ(first->known_spent(), 5U) << "as of its own last commit";
  EXPECT_EQ(second->known_spent(), 12U);
  EXPECT_EQ(*first->spent(), 12U);
  spends(*first, 1);
  EXPECT_EQ(first->known_spent(), 13U);
}

TEST_F(SharedRun, ARunThatWasTakenOverIsNotWrittenTo) {
  TestRun run(Backend::kPostgres);
  run.options.retry_for = std::chrono::milliseconds{5000};
  auto first = run.open(OpenMode::kCreate);
  ASSERT_TRUE(first->reconcile(run_columns(1)));
  PgServer::shared().stop();
  PgServer::shared().start();
  auto second = run.open(OpenMode::kResume);
  ASSERT_TRUE(second->reconcile(run_columns(1)));
  ASSERT_TRUE(put_and_wait(*second, {run_cell(1, 0)}));
  second.reset();
  const auto refused = put_and_wait(*first, {run_cell(1, 1)});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("took over the run"));
}

TEST(SharedPlace, NeverShowsAPassword) {
  for (const std::string where :
       {"postgresql://me:s3cret@127.0.0.1:1/db", "postgresql://me:s3cret@127.0.0.1:1/db?bad=1",
        "postgres://127.0.0.1:1/db?password=s3cret", "postgresql://me:s3cret@127.0.0.1:x/db"}) {
    StoreOptions options;
    options.run_name = "a";
    const auto refused = Store::open(where, OpenMode::kCreate, options);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, Not(HasSubstr("s3cret")));
    EXPECT_THAT(refused.error().message, HasSubstr("postgresql://"));
    EXPECT_THAT(shown_place(where), Not(HasSubstr("s3cret")));
  }
  EXPECT_EQ(shown_place("postgres://me:s3cret@db.example:5433/data?sslmode=require"),
            "postgresql://db.example:5433/data");
  EXPECT_EQ(shown_place("folder/run.db"), "folder/run.db");
}

TEST(SharedPlace, WantsARunName) {
  for (const std::string& name : {std::string(), std::string("a b"), std::string("a\"b"),
                                  std::string(49, 'a'), std::string("ä")}) {
    StoreOptions options;
    options.run_name = name;
    const auto refused = Store::open("postgresql://127.0.0.1:1/db", OpenMode::kCreate, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(refused.error().message, HasSubstr("run name"));
  }
}

TEST(SharedPlace, AFileIsNotShared) {
  const Folder folder;
  const auto refused = Store::open(folder.run(), OpenMode::kShare);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
  auto store = open_store(folder.run(), OpenMode::kCreate);
  EXPECT_EQ(Leases::open(*store, {}).error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace dovetail::pipeline
