#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "pipeline/store/store_fixture.h"

namespace dovetail::pipeline {

// A PostgreSQL server of the tests' own, in a temporary folder, on a socket there; gone with the
// process at the latest.
class PgServer {
 public:
  // Empty, or why there can be none.
  static std::string missing();
  // One for the whole process.
  static PgServer& shared();

  PgServer();
  ~PgServer();
  PgServer(const PgServer&) = delete;
  PgServer& operator=(const PgServer&) = delete;

  std::string where() const;
  void start();
  // As a cut of power does for its processes: at once, without a word to anyone.
  void stop();

 private:
  Folder folder_;
  pid_t process_ = -1;
};

}  // namespace dovetail::pipeline
