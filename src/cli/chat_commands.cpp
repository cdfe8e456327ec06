#include "cli/chat_commands.h"

#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/near_match.h"
#include "cli/engine_options.h"
#include "cli/output.h"
#include "cli/values.h"

namespace dovetail::cli {
namespace {

// The name of a file as it is typed: in double quotes or not, and a leading ~/ is the home
// folder's.
std::string expanded(std::string path) {
  if (path.size() >= 2 && path.starts_with('"') && path.ends_with('"'))
    path = path.substr(1, path.size() - 2);
  const char* home = std::getenv("HOME");
  return home != nullptr && path.starts_with("~/") ? home + path.substr(1) : path;
}

std::string counted(const Conversation& conversation) {
  const std::size_t count = conversation.messages().size();
  return fmt::format("{} message{}", count, count == 1 ? "" : "s");
}

Status run_help(ChatSession&, const std::string&) {
  fmt::print(stderr, "{}", chat_help());
  return {};
}

Status run_system(ChatSession& session, const std::string& argument) {
  if (argument.empty()) {
    const std::string text = session.conversation().system();
    notice(text.empty() ? "there is no system message" : text);
    return {};
  }
  const std::string text = argument == "\"\"" ? std::string() : argument;
  Conversation fresh(text);
  session.start(std::move(fresh));
  session.remark(text.empty() ? "a new conversation without a system message"
                              : "a new conversation with this system message");
  return {};
}

Status run_clear(ChatSession& session, const std::string&) {
  session.start(Conversation(session.conversation().system()));
  session.remark("a new conversation");
  return {};
}

Status run_set(ChatSession& session, const std::string& argument) {
  const std::size_t space = argument.find_first_of(" \t=");
  const std::string name = argument.substr(0, space);
  const bool all = name.empty();
  if (space != std::string::npos) {
    const Status ok =
        session.settings().set(name, std::string(trimmed(argument.substr(space + 1))));
    if (!ok) return ok;
  }
  bool found = false;
  for (const auto& [known, value] :
       sampling_values(session.request(), session.settings().options())) {
    if (!all && known != name) continue;
    found = true;
    notice(fmt::format("{:<26}{}", known, value));
  }
  // A name alone that is none: the error that setting it gives.
  return found ? Status() : session.settings().set(name, "default");
}

Status save(ChatSession& session, const std::string& argument, bool over) {
  const std::string path = expanded(argument);
  if (path.empty()) {
    return fail(ErrorKind::kInvalid, "/save{}: expected the name of a file", over ? "!" : "");
  }
  Conversation& conversation = session.conversation();
  std::error_code ignored;
  if (!over && !conversation.is_of(path) && std::filesystem::is_regular_file(path, ignored)) {
    return fail(ErrorKind::kInvalid,
                "{0}: the file exists, expected a new name; /save! {0} replaces what is in it",
                argument);
  }
  Result<OutputFile> file = OutputFile::open(path);
  if (!file) return fail(file.error());
  if (const Status ok = file->write(conversation.to_request(session.model())); !ok) return ok;
  if (const Status ok = file->close(); !ok) return ok;
  conversation.note_file(path);
  session.remark(fmt::format("saved {} to {}", counted(conversation), argument));
  return {};
}

Status run_save(ChatSession& session, const std::string& argument) {
  return save(session, argument, false);
}

Status run_save_over(ChatSession& session, const std::string& argument) {
  return save(session, argument, true);
}

Status run_load(ChatSession& session, const std::string& argument) {
  const std::string path = expanded(argument);
  if (path.empty()) return fail(ErrorKind::kInvalid, "/load: expected the name of a file");
  const Result<std::string> text = read_text_file(path);
  if (!text) return fail(text.error());
  Result<Conversation> loaded = Conversation::from_json(*text);
  Status ok = loaded ? session.check(*loaded) : fail(loaded.error());
  if (!ok) return fail(ok.error().kind, "{}: {}", argument, ok.error().message);
  std::string line = fmt::format("loaded {} from {}", counted(*loaded), argument);
  if (loaded->ends_with_user()) line += "; the last has no answer yet: /regen";
  loaded->note_file(path);
  session.start(*std::move(loaded));
  session.remark(line);
  return {};
}

Status run_regen(ChatSession& session, const std::string&) { return session.regenerate(); }

Status run_undo(ChatSession& session, const std::string&) {
  Conversation shorter = session.conversation();
  if (!shorter.remove_exchange())
    return fail(ErrorKind::kInvalid, "there is no message yet that could be taken back");
  session.start(std::move(shorter));
  session.remark(fmt::format("took the last message and its answer back; {} left",
                             counted(session.conversation())));
  return {};
}

Status run_stats(ChatSession& session, const std::string&) {
  fmt::print(stderr, "{}", session.stats());
  return {};
}

Status run_exit(ChatSession& session, const std::string&) {
  session.end();
  return {};
}

constexpr std::string_view kSaveOver = "/save!";

constexpr ChatCommand kCommands[] = {
    {"/help", "/?", "", "this list", run_help},
    {"/system", "", "[TEXT]", "show the system message; with TEXT: start anew with it (\"\": none)",
     run_system},
    {"/set", "", "[NAME [VALUE]]", "show what is sampled with, or change it (VALUE default: back)",
     run_set},
    {"/regen", "", "", "answer the last message again, with another seed", run_regen},
    {"/undo", "", "", "take the last message and its answer back", run_undo},
    {"/clear", "/reset", "", "start a new conversation with the same system message", run_clear},
    {"/save", "", "FILE", "write the messages as JSON, as OpenAI's API has them", run_save},
    {kSaveOver, "", "FILE", "the same to a file that exists and has something else", run_save_over},
    {"/load", "", "FILE", "go on with the messages of such a file", run_load},
    {"/stats", "", "", "tokens, speed, and how much of the context is used", run_stats},
    {"/exit", "/quit", "", "end the chat", run_exit},
};

}  // namespace

std::span<const ChatCommand> chat_commands() { return kCommands; }

std::vector<std::string> chat_command_names() {
  std::vector<std::string> names;
  for (const ChatCommand& command : kCommands) {
    // Tab would stop before it.
    if (command.name != kSaveOver) names.emplace_back(command.name);
  }
  return names;
}

std::vector<std::string> chat_completions() {
  std::vector<std::string> lines = chat_command_names();
  for (const auto& [name, value] : SamplingSettings::values_offered())
    lines.push_back(fmt::format("/set {} {}", name, value));
  return lines;
}

std::string chat_command_list() { return fmt::format("{}", fmt::join(chat_command_names(), " ")); }

std::string chat_help() {
  std::string text;
  for (const ChatCommand& command : kCommands) {
    const std::string usage = fmt::format("{} {}", command.name, command.argument);
    text += fmt::format("{:<22} {}\n", usage, command.help);
  }
  return text +
         "\nA line that ends in \\ goes on in the next; Alt-Enter breaks a line; \"\"\" opens and "
         "closes\na block of lines. A message that begins with a slash is typed with two.\n"
         "A FILE may stand in double quotes, and a VALUE in double quotes is a JSON string:\n"
         "/set stop \"\\n\" ends answers at a line break.\n"
         "Ctrl-C stops an answer or clears the line, Ctrl-R searches what was typed before,\n"
         "Ctrl-D ends.\n";
}

Status run_chat_command(ChatSession& session, const std::string& line) {
  const std::size_t end = line.find_first_of(" \t\n");
  const std::string name = line.substr(0, end);
  const std::string argument(
      trimmed(end == std::string::npos ? std::string_view() : std::string_view(line).substr(end)));
  for (const ChatCommand& command : kCommands) {
    if (name != command.name && (command.alias.empty() || name != command.alias)) continue;
    if (command.argument.empty() && !argument.empty())
      return fail(ErrorKind::kInvalid, "{} takes no argument, got '{}'", name, argument);
    return command.run(session, argument);
  }
  const std::vector<std::string> names = chat_command_names();
  const std::vector<std::string> near = begun_or_near(name, names);
  return fail(ErrorKind::kInvalid,
              "unknown command {}, {} {}; a message that begins with a slash is typed with two",
              name, near.empty() ? "expected one of" : "did you mean",
              fmt::join(near.empty() ? names : near, ", "));
}

}  // namespace dovetail::cli
