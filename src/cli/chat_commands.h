#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/chat_session.h"

namespace dovetail::cli {

// What is typed in a chat to be done rather than said.
struct ChatCommand {
  std::string_view name;      // with its slash
  std::string_view alias;     // empty: none
  std::string_view argument;  // as the help shows it; empty: the command takes none
  std::string_view help;
  // `argument` has no blanks around it.
  Status (*run)(ChatSession& session, const std::string& argument);
};

std::span<const ChatCommand> chat_commands();

// The commands' names, and in a line.
std::vector<std::string> chat_command_names();
// The lines that Tab completes a word at a time: commands, settings and their values.
std::vector<std::string> chat_completions();
std::string chat_command_list();

// What /help says.
std::string chat_help();

// Runs a line that begins with a slash. Errors name the command and what would be valid.
Status run_chat_command(ChatSession& session, const std::string& line);

}  // namespace dovetail::cli
