// Files that are not what the store wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "pipeline/store/store_fixture.h"

namespace dovetail::pipeline {
namespace {

using testing::HasSubstr;

TEST(StoreDamage, NamesAFileThatIsNoRun) {
  const Folder folder;
  write_bytes(folder.run(), "a text that is long enough to be taken for the head of a database\n");
  for (const OpenMode mode : {OpenMode::kCreate, OpenMode::kResume, OpenMode::kReadOnly}) {
    const auto refused = Store::open(folder.run(), mode);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(refused.error().message, HasSubstr(folder.run().string()));
  }
  EXPECT_FALSE(Store::open(folder.path(), OpenMode::kCreate));
  EXPECT_FALSE(Store::open(folder.path() / "no" / "run.db", OpenMode::kCreate));
}

// Commits to a file that has no name any more succeed as far as the system is concerned.
TEST(StoreDamage, NoticesThatItsFileWasRemovedOrReplaced) {
  for (const bool replaced : {false, true}) {
    const Folder folder;
    auto store = open_store(folder.run(), OpenMode::kCreate);
    ASSERT_TRUE(store->reconcile(std::vector{column("a", 1, true)}));
    ASSERT_TRUE(put_and_wait(*store, {value(0, 0, "1")}));
    const std::string bytes = read_bytes(folder.run());
    std::filesystem::remove(folder.run());
    if (replaced) write_bytes(folder.run(), bytes);
    const Status refused = put_and_wait(*store, {value(1, 0, "2")});
    ASSERT_FALSE(refused) << replaced;
    EXPECT_EQ(refused.error().kind, ErrorKind::kNotFound);
    EXPECT_THAT(refused.error().message,
                HasSubstr(folder.run().string() + ": the file was removed"));
    EXPECT_FALSE(put_and_wait(*store, {value(2, 0, "3")})) << "nothing after it is taken, either";
    EXPECT_FALSE(store->set_property("a", "b"));
  }
}

// A flipped bit is an error, or it hit a place that holds nothing: never another cell.
TEST(StoreDamage, NeverHandsOutAWrongCell) {
  const Folder folder;
  std::vector<CellResult> cells;
  {
    auto store = open_store(folder.run(), OpenMode::kCreate);
    ASSERT_TRUE(store->reconcile(std::vector{column("a", 1, true), column("b", 2)}));
    for (std::uint64_t record = 0; record < 400; ++record) {
      cells.push_back(value(record, 0, std::to_string(record * 7919)));
      cells.push_back(value(record, 1, std::string(record % 90, 'b')));
    }
    ASSERT_TRUE(put_and_wait(*store, cells));
  }
  const std::string good = read_bytes(folder.run());
  std::mt19937_64 random(3);
  int noticed = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    if (i % 10 == 0) {
      bad.resize(random() % bad.size());
    } else {
      bad[random() % bad.size()] ^= static_cast<char>(1U << (random() % 8));
    }
    write_bytes(folder.run(), bad);
    auto store = Store::open(folder.run(), OpenMode::kReadOnly);
    if (!store) {
      ++noticed;
      continue;
    }
    std::vector<CellResult> read;
    const auto ok = (*store)->for_each_cell([&](const CellView& cell) {
      read.push_back(
          {cell.record, cell.column, cell.state, std::string(cell.json), cell.provenance});
      return true;
    });
    if (ok) {
      EXPECT_EQ(read, cells) << "change " << i;
    } else {
      ++noticed;
      EXPECT_EQ(read, std::vector(cells.begin(), cells.begin() + std::ptrdiff_t(read.size())));
    }
  }
  EXPECT_GT(noticed, 30);
}

}  // namespace
}  // namespace dovetail::pipeline
