#include "cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <utility>

#include "base/near_match.h"
#include "cli/config_file.h"
#include "cli/output.h"
#include "cli/version.h"

namespace dovetail::cli {

std::string overview(const std::vector<Command>& commands) {
  std::string text =
      "Runs language models on CPUs.\n\n"
      "Usage: dovetail COMMAND [OPTIONS] ...\n\n"
      "Commands:\n";
  for (const Command& command : commands)
    text += fmt::format("  {:<12}{}\n", command.name, command.summary);
  text +=
      "\nOptions:\n"
      "  --help      this text; after a command, that command's options\n"
      "  --version   the version, how it was built, and the instruction sets of this CPU\n\n";
  text += kModelText;
  return text + "\n";
}

int unknown_command(const std::string& name, const std::vector<Command>& commands) {
  std::vector<std::string> names;
  const bool option = name.starts_with('-');
  if (option) {
    names = {"--help", "--version"};
  } else {
    for (const Command& command : commands) names.push_back(command.name);
  }
  const std::vector<std::string> near = begun_or_near(name, names);
  fmt::print(stderr, "dovetail: unknown {} '{}'; {} {} (see dovetail --help)\n",
             option ? "option" : "command", name, near.empty() ? "expected one of" : "did you mean",
             fmt::join(near.empty() ? names : near, ", "));
  return kExitUsage;
}

namespace {

// Names of options that may stand where the App and its chosen parts read them.
std::vector<std::string> option_spellings(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* part : app.get_subcommands()) {
    for (std::string& name : option_spellings(*part)) names.push_back(std::move(name));
  }
  return names;
}

// What is wrong with arguments that do not parse, with what may have been meant.
std::string parse_message(const CLI::App& app, const CLI::ParseError& error) {
  for (const std::string& word : app.remaining(true)) {
    const bool option = word.starts_with('-') && word.size() > 1;
    const std::string name = word.substr(0, word.find('='));
    std::vector<std::string> known;
    if (option) {
      known = option_spellings(app);
    } else if (app.get_subcommands().empty()) {
      for (const CLI::App* part : app.get_subcommands({})) known.push_back(part->get_name());
    }
    if (!option && known.empty()) continue;
    const std::vector<std::string> near = begun_or_near(name, known);
    const std::string said = option
                                 ? fmt::format("unknown option {}", name)
                                 : fmt::format("'{}' is none of {}", name, fmt::join(known, ", "));
    return near.empty() ? said : fmt::format("{}, did you mean {}", said, fmt::join(near, ", "));
  }
  return error.what();
}

int run_chosen(Command& command, const std::vector<Command>& commands,
               const std::vector<std::string>& arguments) {
  // CLI11 takes them from the back.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend() - 1);
  try {
    command.options->parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", command.options->help());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return usage_error(command.name, parse_message(*command.options, error));
  }
  if (const Status ok = apply_config(command, commands); !ok) {
    notice(fmt::format("dovetail {}: {}", command.name, ok.error().message));
    return kExitFailed;
  }
  const Result<int> outcome = command.action();
  if (outcome) return *outcome;
  std::fflush(stdout);
  notice(fmt::format("dovetail {}: {}", command.name, outcome.error().message));
  return kExitFailed;
}

}  // namespace

std::vector<Command> all_commands() {
  std::vector<Command> commands;
  commands.push_back(run_command());
  commands.push_back(pipeline_command());
  commands.push_back(chat_command());
  commands.push_back(serve_command());
  commands.push_back(inspect_command());
  commands.push_back(tokenize_command());
  commands.push_back(embed_command());
  commands.push_back(rerank_command());
  commands.push_back(bench_command());
  commands.push_back(perplexity_command());
  commands.push_back(simulate_command());
  commands.push_back(cores_command());
  commands.push_back(help_command());
  commands.push_back(completion_command());
  for (Command& command : commands) {
    command.options
        ->add_option(
            "--config",
            "A TOML file: keys are long options (max-num-seqs = 8), for all commands or in "
            "the table of one ([serve])")
        ->type_name("FILE")
        ->group("Other");
    // Set again, so that it comes last.
    command.options->set_help_flag("-h,--help", "This text")->group("Other");
    command.options->get_formatter()->column_width(36);
  }
  return commands;
}

int usage_error(std::string_view command, std::string_view message) {
  notice(fmt::format("dovetail {}: {}\nTry 'dovetail {} --help'.", command, message, command));
  return kExitUsage;
}

int run_app(const std::vector<std::string>& arguments) {
  std::vector<Command> commands = all_commands();
  if (arguments.empty()) {
    fmt::print(stderr, "{}", overview(commands));
    return kExitUsage;
  }
  const std::string& first = arguments.front();
  if (first == "--version" || first == "-V") {
    fmt::print("{}", version_text());
    return kExitOk;
  }
  if (first == "--help" || first == "-h") {
    fmt::print("{}", overview(commands));
    return kExitOk;
  }
  for (Command& command : commands)
    if (command.name == first) return run_chosen(command, commands, arguments);
  return unknown_command(first, commands);
}

}  // namespace dovetail::cli
