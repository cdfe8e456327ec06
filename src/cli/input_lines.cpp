#include "cli/input_lines.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace dovetail::cli {
namespace {

tl::unexpected<Error> system_error(const std::string& name) {
  return fail(errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: {}", name,
              std::strerror(errno));
}

tl::unexpected<Error> too_long(const std::string& name, std::size_t line) {
  return fail(ErrorKind::kInvalid, "{}:{}: the line is too long, expected at most {} bytes", name,
              line, InputLines::kLongestLine);
}

}  // namespace

Result<InputLines::File> InputLines::spool(const std::string& name, std::FILE* from) {
  File copy(std::tmpfile());
  if (!copy) return system_error("a temporary file");
  std::array<char, std::size_t{1} << 16> buffer{};
  std::size_t line = 1;
  std::size_t in_line = 0;  // bytes so far; what never ends (/dev/zero) is not copied for ever
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), from)) {
    for (std::size_t i = 0; i < count; ++i) {
      if (++in_line > kLongestLine) return too_long(name, line);
      if (buffer[i] != '\n') continue;
      ++line;
      in_line = 0;
    }
    if (std::fwrite(buffer.data(), 1, count, copy.get()) != count)
      return system_error("a temporary file");
  }
  if (std::ferror(from) != 0) return system_error(name);
  std::rewind(copy.get());
  return copy;
}

Result<InputLines> InputLines::open(const std::string& path) {
  const bool standard = path == "-";
  const std::string name = standard ? "standard input" : path;
  File file;
  if (!standard) {
    file.reset(std::fopen(path.c_str(), "rb"));
    if (!file) return system_error(name);
  }
  std::FILE* opened = standard ? stdin : file.get();
  struct stat facts = {};
  if (fstat(fileno(opened), &facts) != 0) return system_error(name);
  if (S_ISDIR(facts.st_mode))
    return fail(ErrorKind::kInvalid, "{}: it is a folder, expected a file of JSON lines", name);
  if (standard || !S_ISREG(facts.st_mode)) {
    Result<File> copy = spool(name, opened);
    if (!copy) return fail(copy.error());
    file = *std::move(copy);
  }
  return InputLines(name, std::move(file));
}

Result<std::optional<InputLines::Line>> InputLines::next() {
  while (true) {
    std::string text;
    int c = 0;
    while ((c = getc_unlocked(file_.get())) != EOF) {
      text += static_cast<char>(c);
      if (text.size() > kLongestLine) return too_long(name_, line_ + 1);
      if (c == '\n') break;
    }
    if (std::ferror(file_.get()) != 0) return system_error(name_);
    if (text.empty()) return std::optional<Line>();
    ++line_;
    if (line_ == 1 && text.compare(0, 3, "\xEF\xBB\xBF") == 0) text.erase(0, 3);
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    if (!text.empty()) return std::optional<Line>({line_, std::move(text)});
  }
}

Status InputLines::rewind() {
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) return system_error(name_);
  line_ = 0;
  return {};
}

}  // namespace dovetail::cli
