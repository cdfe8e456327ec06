#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace dovetail::cli {

// The messages of a conversation as OpenAI's API has them: {"role", "content", ...} each.
class Conversation {
 public:
  // An empty `system`: no system message.
  explicit Conversation(const std::string& system = "");

  // Reads an array of messages, or an object that has one as "messages", as requests and
  // to_request() do. Contents are strings or arrays of text parts.
  static Result<Conversation> from_json(std::string_view text);

  // The body of a request that goes on with this conversation, indented.
  std::string to_request(const std::string& model) const;

  const Json& messages() const { return messages_; }
  std::string system() const;  // of the first message; empty where it is no system message
  bool ends_with_user() const;

  // The files that it was read from or written to: those it may be written to again.
  bool is_of(const std::string& path) const;
  void note_file(const std::string& path);

  void add_user(std::string text);
  // The reasoning ahead of it stays with it, for templates that show it again.
  void add_answer(std::string text, std::string reasoning = {});

  // Removes what follows the last message of the user; false where the user has said nothing.
  bool remove_answer();
  // Removes that message, too.
  bool remove_exchange();

 private:
  Json messages_;
  std::set<std::string> files_;  // without links
};

}  // namespace dovetail::cli
