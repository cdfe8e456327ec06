#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// A folder that is gone with the object, on the disk that temporary files are on.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "dovetail-store-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path run() const { return path_ / "run.db"; }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << bytes;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

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
