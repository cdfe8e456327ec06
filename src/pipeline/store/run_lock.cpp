#include "pipeline/store/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace dovetail::pipeline {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

std::string holder(int file) {
  std::array<char, 256> text;
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  std::string_view read(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  read = read.substr(0, read.find('\n'));
  for (const char c : read) {
    if (c < ' ' || c > '~') return "unknown";
  }
  return read.empty() ? "unknown" : std::string(read);
}

std::string own_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("process {} on host {}\n", ::getpid(), host.data());
}

// Whether the path still leads to the open file: its last holder may have removed it meanwhile.
bool is_current(int file, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

Result<RunLock> RunLock::take(const std::filesystem::path& database) {
  std::filesystem::path path = database;
  path += ".lock";
  for (;;) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) {
      return fail(ErrorKind::kIo,
                  "{}: cannot be made ({}); a run writes into this folder: make it, make it "
                  "writable, or choose another",
                  path.string(), reason(errno));
    }
    RunLock lock(path, -1);
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      const std::string name = holder(file);
      ::close(file);
      if (error == EINTR) continue;
      if (error != EWOULDBLOCK) {
        return fail(ErrorKind::kIo, "{}: cannot be locked ({}); choose a folder on another disk",
                    path.string(), reason(error));
      }
      return fail(ErrorKind::kUnavailable,
                  "{}: the run is being worked on by another process ({}); wait until it has "
                  "ended, or end it",
                  database.string(), name);
    }
    if (!is_current(file, path)) {
      ::close(file);
      continue;
    }
    lock.file_ = file;
    // The name serves messages only: a disk too full for it does not keep the run from resuming.
    const std::string name = own_name();
    if (::ftruncate(file, 0) == 0) (void)!::pwrite(file, name.data(), name.size(), 0);
    return lock;
  }
}

RunLock::~RunLock() {
  if (file_ < 0) return;
  // Removed while it is held, so that nobody's file but ours goes.
  ::unlink(path_.c_str());
  ::close(file_);
}

RunLock::RunLock(RunLock&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

RunLock& RunLock::operator=(RunLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

}  // namespace dovetail::pipeline
