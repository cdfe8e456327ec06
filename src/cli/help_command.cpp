#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/man_page.h"
#include "cli/output.h"
#include "cli/shell_completion.h"
#include "cli/values.h"
#include "cli/version.h"

namespace dovetail::cli {
namespace {

struct HelpOptions {
  std::vector<std::string> words;
  bool man = false;
};

const CLI::App* find_part(const CLI::App& app, const std::string& name) {
  for (const CLI::App* part : app.get_subcommands({}))
    if (part->get_name() == name) return part;
  return nullptr;
}

Result<int> print_text(const Result<std::string>& text) {
  if (!text) return fail(text.error());
  Result<OutputFile> output = OutputFile::open("");
  if (const Status ok = output->write(*text); !ok) return fail(ok.error());
  return kExitOk;
}

Result<int> show_help(const HelpOptions& options) {
  const std::vector<Command> commands = all_commands();
  if (options.man) {
    const std::string version = version_text();
    return print_text(man_page(commands, version.substr(0, version.find('\n'))));
  }
  if (options.words.empty()) return print_text(overview(commands));
  for (const Command& command : commands) {
    if (command.name != options.words.front()) continue;
    const CLI::App* app = command.options.get();
    std::string words;  // before the App's own name
    for (std::size_t i = 1; i < options.words.size(); ++i) {
      words += (words.empty() ? "" : " ") + app->get_name();
      app = find_part(*app, options.words[i]);
      if (app == nullptr) {
        return usage_error(
            "help", fmt::format("'{}' is no part of {}", options.words[i], options.words.front()));
      }
    }
    return print_text(app->help(words));
  }
  return unknown_command(options.words.front(), commands);
}

}  // namespace

Command help_command() {
  Command command;
  command.name = "help";
  command.summary = "the commands, or the options of one";
  command.options =
      std::make_unique<CLI::App>("Shows the commands, or the options of one.\n", "dovetail help");
  const auto options = std::make_shared<HelpOptions>();
  command.options->add_option("COMMAND", options->words, "What to explain")
      ->type_name(kCommandArgument);
  command.options->add_flag("--man", options->man,
                            "All of it as a manual page: dovetail help --man | man -l -");
  command.action = [options] { return show_help(*options); };
  return command;
}

Command completion_command() {
  Command command;
  command.name = "completion";
  command.summary = "a script with which bash or zsh completes commands and options";
  command.options = std::make_unique<CLI::App>(
      "Prints a script that makes a shell complete commands, options and their values:\n"
      "  bash: source <(dovetail completion bash)\n"
      "  zsh:  source <(dovetail completion zsh)\n",
      "dovetail completion");
  const auto shell = std::make_shared<std::string>();
  command.options->add_option("SHELL", *shell, "Which shell")->type_name(kShells);
  command.action = [shell]() -> Result<int> {
    if (shell->empty()) return usage_error("completion", "SHELL is missing, expected bash or zsh");
    return print_text(completion_script(*shell, all_commands()));
  };
  return command;
}

}  // namespace dovetail::cli
