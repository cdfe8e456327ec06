#include "cli/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace dovetail::cli {

Result<OutputFile> OutputFile::open(const std::string& path) {
  if (path.empty() || path == "-") return OutputFile("standard output", stdout);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return fail(ErrorKind::kIo, "{}: {}", path, std::strerror(errno));
  return OutputFile(path, file);
}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : name_(std::move(other.name_)), file_(std::exchange(other.file_, nullptr)) {}

Status OutputFile::write(std::string_view text) {
  // Not by way of the stream's buffer: a signal that interrupts it loses what was in it, and a
  // signal stops a batch, whose results are yet to be written.
  while (!text.empty()) {
    const ssize_t size = ::write(fileno(file_), text.data(), text.size());
    if (size >= 0) {
      text.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno != EINTR) {
      return fail(ErrorKind::kIo, "{}: {}", name_, std::strerror(errno));
    }
  }
  return {};
}

Status OutputFile::close() {
  std::FILE* file = std::exchange(file_, nullptr);
  if (file == nullptr || file == stdout || std::fclose(file) == 0) return {};
  return fail(ErrorKind::kIo, "{}: {}", name_, std::strerror(errno));
}

}  // namespace dovetail::cli
