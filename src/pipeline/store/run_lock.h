#pragma once

#include <filesystem>

#include "base/result.h"

namespace dovetail::pipeline {

// The right to write a run, held by one process at a time and given back with the object, or by the
// system when the process dies. The file `<database>.lock` names the holder; it goes when the lock
// does, and one left by a process that was killed does no harm.
class RunLock {
 public:
  RunLock() = default;
  // kUnavailable with the holder's process id and host where another process has it; kIo where the
  // folder cannot be written.
  static Result<RunLock> take(const std::filesystem::path& database);

  ~RunLock();
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;

 private:
  RunLock(std::filesystem::path path, int file) : path_(std::move(path)), file_(file) {}

  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace dovetail::pipeline
