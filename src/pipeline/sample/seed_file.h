#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace dovetail::pipeline {

// A regular file that is read at any place, and that must stay what it was when it was opened
// first. Movable; read_at() may be called from several threads at once.
class SeedFile {
 public:
  // `name` stands in errors.
  static Result<SeedFile> open(const std::filesystem::path& path, std::string name);

  SeedFile(SeedFile&& other) noexcept;
  SeedFile& operator=(SeedFile&& other) noexcept;
  SeedFile(const SeedFile&) = delete;
  SeedFile& operator=(const SeedFile&) = delete;
  ~SeedFile() { release(); }

  const std::string& name() const { return name_; }
  std::uint64_t size() const { return size_; }
  std::int64_t modified() const { return modified_; }  // nanoseconds since 1970

  // Fills `out` from `offset` on; less only at the file's end. Returns the number of bytes.
  Result<std::size_t> read_at(std::uint64_t offset, std::span<char> out) const;

  // kInvalid where the file is another one now, or has another size or time of change.
  Status check_unchanged() const;

  // Closes the file; it is opened anew, and must be the same, for each later read. For sets of more
  // files than a process may have open.
  void release();

 private:
  SeedFile() = default;
  Result<int> descriptor() const;

  std::filesystem::path path_;
  std::string name_;
  int descriptor_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;
  std::uint64_t size_ = 0;
  std::int64_t modified_ = 0;
};

}  // namespace dovetail::pipeline
