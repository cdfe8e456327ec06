#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/store/store.h"
#include "support/temp_folder.h"

namespace dovetail::pipeline {

using test::read_bytes;
using test::write_bytes;

struct Folder : test::TempFolder {
  std::filesystem::path run() const { return path() / "run.db"; }
};

inline ColumnSpec column(std::string name, std::uint64_t fingerprint, bool small = false) {
  return {std::move(name), {fingerprint, ~fingerprint}, small};
}

inline CellResult value(std::uint64_t record, std::uint32_t index, std::string json) {
  return {record, index, CellState::kValue, std::move(json), {}};
}

// The store, or a failed test that names the error.
inline std::unique_ptr<Store> open_store(const std::filesystem::path& file, OpenMode mode,
                                         StoreOptions options = {}) {
  auto store = Store::open(file, mode, std::move(options));
  if (!store) {
    ADD_FAILURE() << store.error().message;
    return nullptr;
  }
  return *std::move(store);
}

inline Status put_and_wait(Store& store, const std::vector<CellResult>& cells) {
  Status answer = fail(ErrorKind::kInternal, "done was not called");
  store.put(cells, [&](Status status) { answer = std::move(status); });
  if (auto ok = store.flush(); !ok) return ok;
  return answer;
}

inline std::vector<CellResult> all_cells(const Store& store) {
  std::vector<CellResult> cells;
  const auto ok = store.for_each_cell([&](const CellView& cell) {
    cells.push_back(
        {cell.record, cell.column, cell.state, std::string(cell.json), cell.provenance});
    return true;
  });
  EXPECT_TRUE(ok) << ok.error().message;
  return cells;
}

}  // namespace dovetail::pipeline
