#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "pipeline/store/hunt/run_shape.h"
#include "pipeline/store/hunt_process.h"
#include "pipeline/store/mutation.h"
#include "pipeline/store/store_fixture.h"
#include "pipeline/store/test_run.h"

namespace dovetail::pipeline {
namespace {

// What is in the run against what was said to be finished; empty where all is well.
std::string check(TestRun& run, const std::set<std::uint64_t>& promised,
                  std::uint64_t& next_record) {
  auto store = run.try_open(OpenMode::kResume);
  if (!store) return store.error().message;
  std::uint64_t kept = 0;
  std::optional<std::uint64_t> last;
  std::string wrong;
  const auto ok = (*store)->for_each_cell([&](const CellView& cell) {
    const std::uint64_t number = cell.record * 8 + cell.column;
    if (last && number <= *last) wrong = "a cell is there twice";
    if (!is_run_cell(cell)) wrong = "a cell is not what was put";
    last = number;
    kept += promised.count(number);
    next_record = std::max(next_record, cell.record + 1);
    return true;
  });
  if (!ok) return ok.error().message;
  if (!wrong.empty()) return wrong;
  if (kept != promised.size()) return std::to_string(promised.size() - kept) + " cells are lost";
  return {};
}

// One run, killed and resumed again and again.
std::string killed_at(Backend backend, StoreMutant mutant, int moments) {
  TestRun run(backend);
  std::mt19937_64 random(20'241'121);
  std::set<std::uint64_t> promised;
  std::uint64_t next_record = 0;
  for (int moment = 0; moment < moments; ++moment) {
    Hunt hunt(mutant, "write", run.where(), next_record, run.options.run_name);
    const auto life = std::chrono::microseconds{random() % 40'000};
    const auto said = cells_said(hunt.listen(life));
    hunt.kill();
    if (said.empty()) return "nothing was written";
    promised.insert(said.begin(), said.end());
    if (auto wrong = check(run, promised, next_record); !wrong.empty()) return wrong;
  }
  return {};
}

class StoreKill : public testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (auto why = missing(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};

INSTANTIATE_TEST_SUITE_P(Sqlite, StoreKill, testing::Values(Backend::kSqlite));
INSTANTIATE_TEST_SUITE_P(Postgres, StoreKill, testing::Values(Backend::kPostgres));

// DOVETAIL_LONG: at more moments.
TEST_P(StoreKill, KilledAtAnyMoment) {
  const int moments = std::getenv("DOVETAIL_LONG") != nullptr ? 50 : 15;
  EXPECT_EQ(killed_at(GetParam(), StoreMutant::kNone, moments), "");
}

TEST_P(StoreKill, KillingNoticesAnEarlyDone) {
  EXPECT_NE(killed_at(GetParam(), StoreMutant::kDoneBeforeCommit, 50), "");
}

TEST(StoreCrash, KilledWhileColumnsAreRemade) {
  const Folder folder;
  const auto file = folder.run();
  constexpr std::uint64_t kRecords = 20'000;
  std::mt19937_64 random(7);
  const auto fill = [&](bool all, Store& store) {
    for (std::uint64_t record = 0; record < kRecords; ++record) {
      if (all) {
        store.put(std::vector{run_cell(record, 0), run_cell(record, 1), run_cell(record, 2)}, {});
      } else {
        store.put(run_cell(record, 2), {});
      }
    }
    ASSERT_TRUE(store.flush());
  };
  std::uint64_t print = 1;
  {
    auto store = open_store(file, OpenMode::kCreate);
    ASSERT_TRUE(store->reconcile(run_columns(print)));
    fill(true, *store);
  }
  int undone = 0;
  for (int round = 0; round < 12; ++round) {
    {
      Hunt hunt(StoreMutant::kNone, "reconcile", file, print + 1);
      std::this_thread::sleep_for(std::chrono::microseconds{random() % 60'000});
      hunt.kill();
    }
    auto store = open_store(file, OpenMode::kResume);
    ASSERT_NE(store, nullptr);
    const auto columns = store->columns();
    ASSERT_TRUE(columns);
    const bool remade = columns->at(2).fingerprint.low == print + 1;
    const auto counts = store->counts();
    ASSERT_TRUE(counts) << counts.error().message;
    const auto cells = [&](std::size_t column) {
      std::uint64_t sum = 0;
      for (const std::uint64_t count : counts->at(column)) sum += count;
      return sum;
    };
    EXPECT_EQ(cells(0), kRecords);
    EXPECT_EQ(cells(1), kRecords);
    EXPECT_EQ(cells(2), remade ? 0 : kRecords);
    if (remade) {
      ++print;
      ASSERT_TRUE(store->reconcile(run_columns(print)));
      fill(false, *store);
    } else {
      ++undone;
    }
  }
  RecordProperty("killed_before_the_end", undone);
}

// A disk that is full for a while.
std::string starved(StoreMutant mutant) {
  TestRun run(Backend::kSqlite);
  Hunt hunt(mutant, "full", run.where(), 0);
  const auto said = cells_said(hunt.listen(std::nullopt));
  const std::set<std::uint64_t> promised(said.begin(), said.end());
  if (const int status = hunt.wait(); status != 0) return "ended with " + std::to_string(status);
  if (promised.size() != 4000) return "not all cells were finished";
  std::uint64_t next_record = 0;
  return check(run, promised, next_record);
}

TEST(StoreCrash, WaitsWhileTheDiskIsFull) { EXPECT_EQ(starved(StoreMutant::kNone), ""); }

TEST(StoreCrash, AFullDiskNoticesAForgottenBatch) {
  EXPECT_NE(starved(StoreMutant::kForgetFailed), "");
}

// Twenty cuts of power under load; what was not synced is gone, torn or there.
int power_cut(StoreMutant mutant, std::uint64_t seed, std::string& said) {
  const Folder folder;
  Hunt hunt(mutant, "power", folder.path(), seed);
  said = hunt.listen(std::nullopt);
  return hunt.wait();
}

TEST(StoreCrash, SurvivesCutsOfPower) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::string said;
    EXPECT_EQ(power_cut(StoreMutant::kNone, seed, said), 0) << said;
  }
}

TEST(StoreCrash, CutsOfPowerNoticeAMissingSync) {
  std::string said;
  EXPECT_NE(power_cut(StoreMutant::kSyncSeldom, 1, said), 0);
  EXPECT_NE(said, "");
}

// Gives up root's right to write everywhere, for a while; nothing where there is none.
class Commoner {
 public:
  Commoner() : root_(::geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    if (root_ && ::seteuid(kNobody) != 0) throw std::runtime_error("cannot give up root");
  }
  Commoner(const Commoner&) = delete;
  Commoner& operator=(const Commoner&) = delete;
  ~Commoner() {
    if (root_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool root_;
};

TEST(StoreCrash, SaysThatTheFolderIsReadOnly) {
  const Folder folder;
  const std::vector<CellResult> cells = {run_cell(0, 0), run_cell(0, 2), run_cell(7, 3)};
  {
    auto store = open_store(folder.run(), OpenMode::kCreate);
    ASSERT_TRUE(store->reconcile(run_columns(1)));
    ASSERT_TRUE(put_and_wait(*store, cells));
  }
  ASSERT_EQ(::chmod(folder.path().c_str(), 0555), 0);
  {
    const Commoner commoner;
    for (const auto& [file, mode] : {std::pair{folder.run(), OpenMode::kResume},
                                     std::pair{folder.path() / "new.db", OpenMode::kCreate}}) {
      const auto refused = Store::open(file, mode);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().kind, ErrorKind::kIo);
      EXPECT_THAT(refused.error().message, testing::HasSubstr(folder.path().string()));
      EXPECT_THAT(refused.error().message, testing::HasSubstr("writable"));
    }
    // What is there can still be looked at.
    auto store = open_store(folder.run(), OpenMode::kReadOnly);
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(all_cells(*store), cells);
  }
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  auto store = open_store(folder.run(), OpenMode::kResume);
  ASSERT_NE(store, nullptr);
  EXPECT_EQ(all_cells(*store), cells);
}

}  // namespace
}  // namespace dovetail::pipeline
