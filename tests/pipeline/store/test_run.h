#pragma once

#include <atomic>
#include <memory>
#include <ostream>
#include <string>

#include "pipeline/store/pg_server.h"
#include "pipeline/store/store_fixture.h"

namespace dovetail::pipeline {

enum class Backend { kSqlite, kPostgres };

inline void PrintTo(Backend backend, std::ostream* out) {
  *out << (backend == Backend::kSqlite ? "SQLite" : "PostgreSQL");
}

// Empty, or why there is no such database here.
inline std::string missing(Backend backend) {
  return backend == Backend::kPostgres ? PgServer::missing() : std::string();
}

inline std::string new_run_name() {
  static std::atomic<int> number{0};
  return "Test-" + std::to_string(++number) + ".x";
}

// A place for one run, which is gone with the object.
class TestRun {
 public:
  explicit TestRun(Backend backend)
      : where_(backend == Backend::kSqlite ? folder_.run().string() : PgServer::shared().where()) {
    if (backend == Backend::kPostgres) options.run_name = new_run_name();
  }
  Result<std::unique_ptr<Store>> try_open(OpenMode mode) {
    return Store::open(where_, mode, options);
  }
  std::unique_ptr<Store> open(OpenMode mode) { return open_store(where_, mode, options); }
  const std::string& where() const { return where_; }

  StoreOptions options;

 private:
  Folder folder_;
  std::string where_;
};

}  // namespace dovetail::pipeline
