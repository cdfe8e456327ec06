#include "cli/input_lines.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace dovetail::cli {
namespace {

tl::unexpected<Error> system_error(const std::string& name) {
  return fail(errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: {}", name,
              std::strerror(errno));
}

}  // namespace

Result<InputLines::File> InputLines::spool(const std::string& name, std::FILE* from) {
  File copy(std::tmpfile());
  if (!copy) return system_error("a temporary file");
  std::array<char, std::size_t{1} << 16> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), from)) {
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
  char* buffer = nullptr;
  std::size_t capacity = 0;
  std::optional<Line> found;
  bool failed = false;
  while (!found) {
    const ssize_t length = getline(&buffer, &capacity, file_.get());
    if (length < 0) {
      failed = std::feof(file_.get()) == 0;
      break;
    }
    ++line_;
    std::string text(buffer, static_cast<std::size_t>(length));
    if (line_ == 1 && text.compare(0, 3, "\xEF\xBB\xBF") == 0) text.erase(0, 3);
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    if (!text.empty()) found = Line{line_, std::move(text)};
  }
  const int error = errno;
  std::free(buffer);
  errno = error;
  if (failed) return system_error(name_);
  return found;
}

Status InputLines::rewind() {
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0) return system_error(name_);
  line_ = 0;
  return {};
}

}  // namespace dovetail::cli
