#pragma once

#include <memory>
#include <string>

#include "pipeline/store/store_fixture.h"

namespace dovetail::pipeline {

enum class Backend { kSqlite };

inline std::string missing(Backend) { return {}; }

// A place for one run, which is gone with the object.
class TestRun {
 public:
  explicit TestRun(Backend) {}
  Result<std::unique_ptr<Store>> try_open(OpenMode mode) {
    return Store::open(folder_.run(), mode, options);
  }
  std::unique_ptr<Store> open(OpenMode mode) { return open_store(folder_.run(), mode, options); }

  StoreOptions options;

 private:
  Folder folder_;
};

}  // namespace dovetail::pipeline
