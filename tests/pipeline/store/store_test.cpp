#include "pipeline/store/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pipeline/store/store_fixture.h"

namespace dovetail::pipeline {
namespace {

using testing::HasSubstr;

TEST(Store, KeepsCellsOfAllKinds) {
  const Folder folder;
  const std::vector<ColumnSpec> columns = {column("seed", 1, true), column("text", 2),
                                           column("score", 3, true), column("judge", 4)};
  std::vector<CellResult> cells;
  {
    auto store = open_store(folder.run(), OpenMode::kCreate);
    ASSERT_TRUE(store->reconcile(columns));
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
  auto store = open_store(folder.run(), OpenMode::kResume);
  const auto again = store->reconcile(columns);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->deleted_cells, 0U);
  EXPECT_EQ(all_cells(*store), cells);
  const auto origins = store->origins();
  ASSERT_TRUE(origins);
  ASSERT_EQ(origins->size(), 2U);
  EXPECT_EQ(origins->at(1), (Origin{"small-model", {7, 9}}));
  EXPECT_EQ(store->origin({"small-model", {7, 9}}), 2U);
}

}  // namespace
}  // namespace dovetail::pipeline
