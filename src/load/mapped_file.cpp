#include "load/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace dovetail::load {
namespace {

struct Descriptor {
  int fd;
  explicit Descriptor(int value) : fd(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

tl::unexpected<Error> system_failure(const std::filesystem::path& path, const char* action) {
  const int code = errno;
  const ErrorKind kind = code == ENOENT || code == ENOTDIR ? ErrorKind::kNotFound : ErrorKind::kIo;
  return fail(kind, "{}: cannot {}: {}", path.string(), action,
              std::generic_category().message(code));
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a named pipe in place of the file must not hang the program.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return system_failure(path, "open the file");
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return system_failure(path, "read the file's size");
  if (!S_ISREG(info.st_mode)) {
    return fail(ErrorKind::kInvalid, "{}: not a regular file", path.string());
  }
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile({}));
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (address == MAP_FAILED) return system_failure(path, "map the file");
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const std::byte*>(address), size}));
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  // munmap takes void*, but nothing is written through it.
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void prefetch(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t offset = address % page;
  ::madvise(const_cast<std::byte*>(bytes.data()) - offset, bytes.size() + offset, MADV_WILLNEED);
}

}  // namespace dovetail::load
