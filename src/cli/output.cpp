#include "cli/output.h"

#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "text/visible_text.h"

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

Status OutputFile::show(std::string_view text) {
  return isatty(fileno(file_)) == 1 ? write(text::visible_text(text)) : write(text);
}

Status OutputFile::close() {
  std::FILE* file = std::exchange(file_, nullptr);
  if (file == nullptr || file == stdout || std::fclose(file) == 0) return {};
  return fail(ErrorKind::kIo, "{}: {}", name_, std::strerror(errno));
}

Status OrderedWriter::put(std::size_t index, std::string text) {
  assert(index >= next_ && !waiting_.contains(index));
  waiting_.emplace(index, std::move(text));
  while (!waiting_.empty() && waiting_.begin()->first == next_) {
    const Status ok = write_(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    ++next_;
    if (!ok) return ok;
  }
  return {};
}

Status OrderedWriter::finish() {
  for (const auto& [index, text] : waiting_) {
    if (const Status ok = write_(text); !ok) return ok;
  }
  waiting_.clear();
  return {};
}

namespace {

void write_notice(std::string_view before, std::string_view line, std::string_view behind) {
  // One write, so that lines of threads do not mix.
  std::string text(before);
  text += isatty(STDERR_FILENO) == 1 ? text::visible_text(line) : std::string(line);
  text += behind;
  text += '\n';
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace

void notice(std::string_view line) { write_notice("", line, ""); }

void dimmed_notice(std::string_view line) { write_notice("\x1b[2m", line, "\x1b[0m"); }

}  // namespace dovetail::cli
