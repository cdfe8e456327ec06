#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"

namespace dovetail::load {

// A regular file mapped read-only for as long as the object lives. The file must not be shortened
// meanwhile: touching a page that is gone ends the process (SIGBUS), as with every mapping.
class MappedFile {
 public:
  // An error names the path and what the system said. An empty file maps to an empty span.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

// Asks the system to start reading the pages under `bytes`, which lie in a mapping. A hint: returns
// at once and cannot fail.
void prefetch(std::span<const std::byte> bytes);

}  // namespace dovetail::load
