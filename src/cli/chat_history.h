#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::cli {

// What was typed in earlier chats: a file of JSON strings, a line each, that only its owner may
// read. Several programs may append to it at the same time.
class ChatHistory {
 public:
  static constexpr std::size_t kMaxEntries = 1000;
  static constexpr std::size_t kMaxEntryBytes = std::size_t{64} << 10;

  // $XDG_STATE_HOME/dovetail/chat_history, else of ~/.local/state; empty where neither is known.
  static std::string default_path();

  // Reads the last kMaxEntries entries, and leaves no others in a file of twice as many. The file
  // and its folders are made where they are missing. Lines that are no JSON strings are left out.
  static Result<ChatHistory> open(std::string path);

  const std::vector<std::string>& entries() const { return entries_; }  // oldest first

  // Appends to the file, too; but not what is blank, too long, or the same as the last.
  Status add(std::string_view entry);

 private:
  explicit ChatHistory(std::string path) : path_(std::move(path)) {}

  std::string path_;
  std::vector<std::string> entries_;
};

}  // namespace dovetail::cli
