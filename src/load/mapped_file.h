#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace dovetail::load {

// A regular file mapped read-only for as long as the object lives. The file must not be shortened
// meanwhile: touching a page that is gone raises SIGBUS, as with every mapping; mapped_path() lets
// a handler say which file it was.
class MappedFile {
 public:
  // An error names the path and what the system said. An empty file maps to an empty span.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(std::span<const std::byte> bytes, std::string path);

  std::span<const std::byte> bytes_;
  std::string path_;
};

// The path of the file whose mapping holds `address`; null: of none, or of one beyond the first 512
// at a time. Valid while the mapping lives. Any thread, and signal handlers.
const char* mapped_path(const void* address);

// Asks the system to start reading the pages under `bytes`, which lie in a mapping. A hint: returns
// at once and cannot fail.
void prefetch(std::span<const std::byte> bytes);

// Returns when the pages under `bytes`, which lie in a mapping, have been read and mapped, or
// cannot be: Linux before 5.14 leaves that to the thread that touches them.
void read_pages(std::span<const std::byte> bytes);

// Gives back the whole pages of a mapping under `bytes`, which are read from the file again when
// they are next used. Nothing happens to memory that is no MappedFile's.
void drop_pages(std::span<const std::byte> bytes);

}  // namespace dovetail::load
