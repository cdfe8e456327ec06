#pragma once

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace dovetail::test {

inline std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << bytes;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

// A folder that is gone with the object, and all that is in it.
class TempFolder {
 public:
  enum class Where : std::uint8_t {
    kDisk,    // where temporary files are
    kMemory,  // where the system has /dev/shm, else on the disk
  };

  explicit TempFolder(Where where = Where::kDisk) {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code error;
    const bool in_memory = where == Where::kMemory && std::filesystem::is_directory(memory, error);
    const auto parent = in_memory ? memory : std::filesystem::temp_directory_path();
    std::string name = (parent / "dovetail-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  // A file in it, in folders that are made.
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    write_bytes(file, text);
    return file;
  }
  std::filesystem::path write(std::string_view name, std::span<const std::byte> bytes) const {
    return write(name, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

inline constexpr auto kInMemory = TempFolder::Where::kMemory;

}  // namespace dovetail::test
