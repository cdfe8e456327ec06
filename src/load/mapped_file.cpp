#include "load/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

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

// A signal handler reaches nothing but globals, and may take no lock: a slot is claimed by its
// `begin`, and is complete once that is an address.
struct MappingSlot {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;
  std::atomic<const char*> path = nullptr;
};
constexpr std::uintptr_t kFreeSlot = 0;
constexpr std::uintptr_t kClaimedSlot = 1;  // no page begins there
std::array<MappingSlot, 512> mappings;

void note_mapping(std::span<const std::byte> bytes, const char* path) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  for (MappingSlot& slot : mappings) {
    std::uintptr_t expected = kFreeSlot;
    if (!slot.begin.compare_exchange_strong(expected, kClaimedSlot)) continue;
    slot.end = begin + bytes.size();
    slot.path = path;
    slot.begin = begin;
    return;
  }
}

void forget_mapping(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  for (MappingSlot& slot : mappings) {
    if (slot.begin == begin) slot.begin = kFreeSlot;
  }
}

}  // namespace

const char* mapped_path(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const MappingSlot& slot : mappings) {
    const std::uintptr_t begin = slot.begin;
    if (begin > kClaimedSlot && at >= begin && at < slot.end) return slot.path;
  }
  return nullptr;
}

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
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile({}, path.string()));
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (address == MAP_FAILED) return system_failure(path, "map the file");
  return std::shared_ptr<const MappedFile>(
      new MappedFile({static_cast<const std::byte*>(address), size}, path.string()));
}

MappedFile::MappedFile(std::span<const std::byte> bytes, std::string path)
    : bytes_(bytes), path_(std::move(path)) {
  if (!bytes_.empty()) note_mapping(bytes_, path_.c_str());
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_mapping(bytes_);
  // munmap takes void*, but nothing is written through it.
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

namespace {

// Of the pages under `bytes`, the parts of whole ones included.
void advise(std::span<const std::byte> bytes, int advice) {
  if (bytes.empty()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t offset = address % page;
  ::madvise(const_cast<std::byte*>(bytes.data()) - offset, bytes.size() + offset, advice);
}

}  // namespace

void prefetch(std::span<const std::byte> bytes) { advise(bytes, MADV_WILLNEED); }

void read_pages(std::span<const std::byte> bytes) { advise(bytes, MADV_POPULATE_READ); }

void drop_pages(std::span<const std::byte> bytes) {
  // Of any other memory the contents would be lost.
  if (mapped_path(bytes.data()) == nullptr) return;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::size_t before = (page - address % page) % page;
  if (before >= bytes.size()) return;
  const std::size_t whole = (bytes.size() - before) / page * page;
  if (whole > 0) ::madvise(const_cast<std::byte*>(bytes.data()) + before, whole, MADV_DONTNEED);
}

}  // namespace dovetail::load
