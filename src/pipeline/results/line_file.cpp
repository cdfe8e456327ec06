#include "pipeline/results/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace dovetail::pipeline {
namespace {

constexpr std::size_t kReadAhead = std::size_t{1} << 20;
// Of lines that wait to be written.
constexpr std::size_t kMostKept = std::size_t{64} << 10;

tl::unexpected<Error> fail_on(const std::filesystem::path& path, std::string_view doing,
                              int number) {
  std::string_view hint;
  if (number == ENOSPC || number == EDQUOT) {
    hint = "; make room and resume the run, which goes on with what is durable";
  } else if (number == EACCES || number == EPERM || number == EROFS) {
    hint = "; the file and its folder must be writable";
  }
  return fail(number == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: cannot {}: {}{}",
              path.string(), doing, std::strerror(number), hint);
}

// The number of bytes that could be written; errno says why it is not all of them.
std::size_t write_all(int descriptor, std::string_view text, std::uint64_t at) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::pwrite(descriptor, text.data() + written, text.size() - written,
                               static_cast<off_t>(at + written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = EIO;
      break;
    }
    written += static_cast<std::size_t>(n);
  }
  return written;
}

// -1: errno says why.
ssize_t read_at(int descriptor, char* to, std::size_t size, std::uint64_t at) {
  ssize_t n = -1;
  do {
    n = ::pread(descriptor, to, size, static_cast<off_t>(at));
  } while (n < 0 && errno == EINTR);
  return n;
}

Result<std::pair<int, std::uint64_t>> open_file(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    const int number = errno;
    if (number == ENOENT) {
      return fail(ErrorKind::kNotFound, "{}: cannot write: its folder does not exist",
                  path.string());
    }
    return fail_on(path, "write", number);
  }
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return fail(ErrorKind::kInvalid, "{}: cannot write results: not a regular file", path.string());
  }
  return std::pair(descriptor, static_cast<std::uint64_t>(status.st_size));
}

}  // namespace

Result<LineFile> LineFile::create(const std::filesystem::path& path) {
  const auto opened = open_file(path);
  if (!opened) return fail(opened.error());
  LineFile file(path, opened->first, opened->second);
  if (file.size_ > 0) {
    return fail(
        ErrorKind::kInvalid,
        "{}: there is such a file already, of {} bytes; go on with its run by `dovetail pipeline "
        "resume`, or name another folder",
        path.string(), file.size_);
  }
  return file;
}

Result<LineFile> LineFile::reopen(const std::filesystem::path& path, LineEnds ends) {
  const auto opened = open_file(path);
  if (!opened) return fail(opened.error());
  LineFile file(path, opened->first, opened->second);
  const auto end = file.end_of_whole_lines(ends);
  if (!end) return fail(end.error());
  if (const Status cut = file.truncate(*end); !cut) return fail(cut.error());
  return file;
}

LineFile::LineFile(LineFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      position_(other.position_),
      kept_(std::exchange(other.kept_, {})),
      ahead_(std::move(other.ahead_)),
      ahead_at_(other.ahead_at_) {}

LineFile& LineFile::operator=(LineFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(position_, other.position_);
  std::swap(kept_, other.kept_);
  std::swap(ahead_, other.ahead_);
  std::swap(ahead_at_, other.ahead_at_);
  return *this;
}

LineFile::~LineFile() {
  if (descriptor_ < 0) return;
  (void)write();  // whoever wanted to know has asked
  ::close(descriptor_);
}

Result<std::uint64_t> LineFile::end_of_whole_lines(LineEnds ends) const {
  std::vector<char> chunk(static_cast<std::size_t>(std::min<std::uint64_t>(size_, kReadAhead)));
  std::uint64_t end = 0;
  bool quoted = false;
  for (std::uint64_t at = 0; at < size_;) {
    const ssize_t n = read_at(descriptor_, chunk.data(), chunk.size(), at);
    if (n < 0) return fail_on(path_, "read", errno);
    if (n == 0) break;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      if (chunk[i] == '\n' && !quoted) end = at + i + 1;
      if (chunk[i] == '"' && ends == LineEnds::kOutsideQuotes) quoted = !quoted;
    }
    at += static_cast<std::uint64_t>(n);
  }
  return end;
}

// Whether the file goes on with this line at position_.
Result<bool> LineFile::holds(std::string_view line) {
  if (size_ - position_ < line.size()) return false;
  const auto offset = static_cast<std::size_t>(position_ - ahead_at_);
  if (position_ < ahead_at_ || offset + line.size() > ahead_.size()) {
    const std::uint64_t wanted = std::max<std::uint64_t>(line.size(), kReadAhead);
    ahead_.resize(static_cast<std::size_t>(std::min(size_ - position_, wanted)));
    ahead_at_ = position_;
    for (std::size_t have = 0; have < ahead_.size();) {
      const ssize_t n =
          read_at(descriptor_, ahead_.data() + have, ahead_.size() - have, position_ + have);
      if (n < 0) return fail_on(path_, "read", errno);
      if (n == 0) {  // someone else has cut it
        ahead_.resize(have);
        break;
      }
      have += static_cast<std::size_t>(n);
    }
  }
  const auto start = static_cast<std::size_t>(position_ - ahead_at_);
  return ahead_.size() - start >= line.size() &&
         std::equal(line.begin(), line.end(), ahead_.begin() + static_cast<std::ptrdiff_t>(start));
}

Status LineFile::truncate(std::uint64_t size) {
  if (size == size_) return {};
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    return fail_on(path_, "cut", errno);
  }
  size_ = size;
  return {};
}

Status LineFile::append(std::string_view line) {
  if (kept_.empty() && position_ < size_) {
    const auto there = holds(line);
    if (!there) return fail(there.error());
    if (*there) {
      position_ += line.size();
      return {};
    }
    if (const Status ok = cut(); !ok) return ok;
  }
  if (!kept_.empty() && kept_.size() + line.size() > kMostKept) {
    if (const Status ok = write(); !ok) return ok;
  }
  kept_ += line;
  return {};
}

Status LineFile::check_place() const {
  struct stat there {
  }, ours{};
  if (::fstat(descriptor_, &ours) != 0) return fail_on(path_, "look at it", errno);
  const bool leads = ::stat(path_.c_str(), &there) == 0;
  if (leads && there.st_dev == ours.st_dev && there.st_ino == ours.st_ino) return {};
  if (!leads && errno != ENOENT && errno != ENOTDIR) return fail_on(path_, "look at it", errno);
  if (std::error_code gone; !std::filesystem::exists(path_.parent_path(), gone)) {
    return fail(ErrorKind::kNotFound,
                "{}: its folder was deleted or moved while the run wrote there; `dovetail pipeline "
                "resume` goes on from a folder that was moved, or a database that has the cells",
                path_.string());
  }
  return fail(ErrorKind::kNotFound,
              "{}: the file was {} while the run wrote it; nothing is lost: `dovetail pipeline "
              "resume` writes it again from the cells that are stored",
              path_.string(), leads ? "replaced by another" : "deleted or moved");
}

Status LineFile::write() {
  if (kept_.empty()) return {};
  if (Status ok = check_place(); !ok) return ok;
  if (const std::size_t written = write_all(descriptor_, kept_, position_);
      written < kept_.size()) {
    const int number = errno;
    size_ += written;
    // No half line stays behind; that this fails, too, would say nothing new.
    (void)truncate(position_);
    return fail_on(path_, "write", number);
  }
  position_ += kept_.size();
  size_ = position_;
  kept_.clear();
  return {};
}

Status LineFile::cut() {
  if (const Status ok = write(); !ok) return ok;
  ahead_.clear();
  return truncate(position_);
}

Status LineFile::sync() {
  if (const Status ok = write(); !ok) return ok;
  if (Status ok = check_place(); !ok) return ok;
  if (::fsync(descriptor_) != 0) return fail_on(path_, "make durable", errno);
  std::filesystem::path folder = path_.parent_path();
  if (folder.empty()) folder = ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return fail_on(folder, "open", errno);
  // Not every file system can sync a folder; the file itself is safe by now.
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL;
  const int number = errno;
  ::close(descriptor);
  if (!synced) return fail_on(folder, "make durable", number);
  return {};
}

}  // namespace dovetail::pipeline
