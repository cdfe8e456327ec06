#include "cli/chat_history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.h"

namespace dovetail::cli {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Error> history_error(const std::string& path) {
  return fail(ErrorKind::kIo, "{}: {}", path, std::strerror(errno));
}

std::string history_line(std::string_view entry) {
  return Json(entry).dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

// Writes `text` behind what the file has, or in its place. A new file is its owner's alone.
Status write_private(const std::string& path, std::string_view text, int mode) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | mode, S_IRUSR | S_IWUSR);
  if (file < 0) return history_error(path);
  bool ok = ::fchmod(file, S_IRUSR | S_IWUSR) == 0;
  // One write, so that entries of several programs do not mix.
  ok = ok && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const Status status = ok ? Status() : history_error(path);
  ::close(file);
  return status;
}

}  // namespace

std::string ChatHistory::default_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  // The XDG specification has paths that are not absolute ignored.
  if (state != nullptr && *state == '/') return std::string(state) + "/dovetail/chat_history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home != '/') return {};
  return std::string(home) + "/.local/state/dovetail/chat_history";
}

Result<ChatHistory> ChatHistory::open(std::string path) {
  ChatHistory history(std::move(path));
  const fs::path folder = fs::path(history.path_).parent_path();
  std::error_code error;
  if (fs::create_directories(folder, error)) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) return fail(ErrorKind::kIo, "{}: {}", folder.string(), error.message());
  if (const Status ok = write_private(history.path_, "", O_APPEND); !ok) return fail(ok.error());

  std::ifstream file(history.path_, std::ios::binary);
  std::vector<std::string>& entries = history.entries_;
  std::string line;
  while (std::getline(file, line)) {
    const Json entry = Json::parse(line, nullptr, false);
    if (entry.is_string()) entries.push_back(entry.get<std::string>());
  }
  if (entries.size() <= kMaxEntries) return history;
  const bool much = entries.size() >= 2 * kMaxEntries;
  entries.erase(entries.begin(), entries.end() - kMaxEntries);
  if (!much) return history;
  std::string text;
  for (const std::string& entry : entries) text += history_line(entry);
  // By way of another file, so that the old one stays where the disk is full.
  const std::string fresh = history.path_ + ".new";
  if (const Status ok = write_private(fresh, text, O_TRUNC); !ok) return fail(ok.error());
  fs::rename(fresh, history.path_, error);
  if (error) return fail(ErrorKind::kIo, "{}: {}", history.path_, error.message());
  return history;
}

Status ChatHistory::add(std::string_view entry) {
  const bool blank = entry.find_first_not_of(" \t\n") == std::string_view::npos;
  const bool again = !entries_.empty() && entries_.back() == entry;
  if (blank || again || entry.size() > kMaxEntryBytes) return {};
  entries_.emplace_back(entry);
  return write_private(path_, history_line(entry), O_APPEND);
}

}  // namespace dovetail::cli
