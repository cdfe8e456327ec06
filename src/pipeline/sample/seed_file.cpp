#include "pipeline/sample/seed_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "load/quote.h"

namespace dovetail::pipeline {
namespace {

std::string reason() { return std::generic_category().message(errno); }

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

Result<SeedFile> SeedFile::open(const std::filesystem::path& path, std::string name) {
  SeedFile file;
  file.path_ = path;
  file.name_ = std::move(name);
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) {
    return fail(errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: cannot be opened: {}",
                file.name_, reason());
  }
  struct stat facts {};
  if (::fstat(file.descriptor_, &facts) != 0) {
    return fail(ErrorKind::kIo, "{}: {}", file.name_, reason());
  }
  if (!S_ISREG(facts.st_mode)) {
    return fail(ErrorKind::kInvalid, "{}: no regular file; valid: a regular file", file.name_);
  }
  file.device_ = facts.st_dev;
  file.inode_ = facts.st_ino;
  file.size_ = static_cast<std::uint64_t>(facts.st_size);
  file.modified_ = nanoseconds(facts.st_mtim);
  return file;
}

SeedFile::SeedFile(SeedFile&& other) noexcept { *this = std::move(other); }

SeedFile& SeedFile::operator=(SeedFile&& other) noexcept {
  if (this == &other) return *this;
  release();
  path_ = std::move(other.path_);
  name_ = std::move(other.name_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  device_ = other.device_;
  inode_ = other.inode_;
  size_ = other.size_;
  modified_ = other.modified_;
  return *this;
}

void SeedFile::release() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

Status SeedFile::check_unchanged() const {
  struct stat facts {};
  const int result =
      descriptor_ >= 0 ? ::fstat(descriptor_, &facts) : ::stat(path_.c_str(), &facts);
  if (result != 0) return fail(ErrorKind::kIo, "{}: {}", name_, reason());
  if (facts.st_dev == device_ && facts.st_ino == inode_ &&
      static_cast<std::uint64_t>(facts.st_size) == size_ &&
      nanoseconds(facts.st_mtim) == modified_) {
    return {};
  }
  return fail(ErrorKind::kInvalid,
              "{}: has changed since it was read first ({} bytes then, {} now); valid: a file that "
              "stays as it is during a run",
              name_, size_, facts.st_size);
}

Result<int> SeedFile::descriptor() const {
  if (descriptor_ >= 0) return descriptor_;
  const int opened = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) return fail(ErrorKind::kIo, "{}: cannot be opened: {}", name_, reason());
  return opened;
}

Result<std::size_t> SeedFile::read_at(std::uint64_t offset, std::span<char> out) const {
  const auto opened = descriptor();
  if (!opened) return fail(opened.error());
  std::size_t done = 0;
  Status status;
  while (done < out.size()) {
    const ssize_t count =
        ::pread(*opened, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) status = fail(ErrorKind::kIo, "{}: {}", name_, reason());
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  if (descriptor_ < 0) ::close(*opened);
  if (!status) return fail(status.error());
  return done;
}

}  // namespace dovetail::pipeline
