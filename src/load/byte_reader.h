#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/result.h"
#include "load/quote.h"

namespace dovetail::load {

static_assert(std::endian::native == std::endian::little, "files are read in place");

// A bounds-checked little-endian cursor. The first failure sticks: every later read yields zero or
// nothing, so that a caller may read a whole record and ask once. `file` and the field names must
// outlive the reader.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string_view file)
      : bytes_(bytes), file_(file) {}

  bool ok() const { return !error_; }
  const Error& error() const { return *error_; }
  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }

  template <class T>
  requires std::is_arithmetic_v<T> T number(std::string_view field) {
    T value{};
    const auto bytes = take(sizeof(T), field);
    if (bytes.size() == sizeof(T)) std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  // The next `count` bytes; empty after a failure.
  std::span<const std::byte> take(std::uint64_t count, std::string_view field) {
    if (error_) return {};
    if (count > remaining()) {
      set_error(field, count, 1);
      return {};
    }
    const auto taken = bytes_.subspan(offset_, static_cast<std::size_t>(count));
    offset_ += taken.size();
    return taken;
  }

  // A u64 length and as many bytes.
  std::string_view string(std::string_view field) {
    const auto length = number<std::uint64_t>(field);
    const auto bytes = take(length, field);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // False, and an error, unless `count` things of at least `bytes_each` bytes can still follow. To
  // be asked before anything is sized by a count from the file.
  bool can_hold(std::uint64_t count, std::size_t bytes_each, std::string_view field) {
    if (error_) return false;
    if (count <= remaining() / bytes_each) return true;
    set_error(field, count, bytes_each);
    return false;
  }

 private:
  void set_error(std::string_view field, std::uint64_t count, std::size_t bytes_each) {
    error_ =
        Error{ErrorKind::kInvalid,
              fmt::format(
                  "{}: {} at byte {}: needs {}{} bytes; valid: at most the {} bytes left in the "
                  "file (cut short, or a wrong length)",
                  file_, quote(field), offset_, count,
                  bytes_each == 1 ? std::string() : fmt::format(" x {}", bytes_each), remaining())};
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  std::size_t offset_ = 0;
  std::optional<Error> error_;
};

}  // namespace dovetail::load
