#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dovetail::load {

// A folder that is gone with the object; in memory where the system has /dev/shm.
class TempFolder {
 public:
  TempFolder() {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code error;
    const auto parent = std::filesystem::is_directory(memory, error)
                            ? memory
                            : std::filesystem::temp_directory_path();
    std::string name = (parent / "dovetail-load-XXXXXX").string();
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

  std::filesystem::path write(std::string_view name, std::span<const std::byte> bytes) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
    return file;
  }
  std::filesystem::path write(std::string_view name, std::string_view text) const {
    return write(name, std::as_bytes(std::span(text)));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace dovetail::load
