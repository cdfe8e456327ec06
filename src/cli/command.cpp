#include "cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "base/near_match.h"
#include "cli/config_file.h"

namespace dovetail::cli {

namespace {

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
      "  --version   the version\n\n"
      "MODEL is a GGUF file (of a split, any part) or a Hugging Face folder with safetensors.\n";
  return text;
}

int unknown_command(const std::string& name, const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  const std::vector<std::string> near = near_matches(name, names);
  fmt::print(stderr, "dovetail: unknown command '{}'; {} {} (see dovetail --help)\n", name,
             near.empty() ? "expected one of" : "did you mean",
             fmt::join(near.empty() ? names : near, ", "));
  return kExitUsage;
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
    return usage_error(command.name, error.what());
  }
  if (const Status ok = apply_config(command, commands); !ok) {
    fmt::print(stderr, "dovetail {}: {}\n", command.name, ok.error().message);
    return kExitFailed;
  }
  const Result<int> outcome = command.action();
  if (outcome) return *outcome;
  std::fflush(stdout);
  fmt::print(stderr, "dovetail {}: {}\n", command.name, outcome.error().message);
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
  for (Command& command : commands) {
    command.options->add_option("--config", "A TOML file with options; see the README of src/cli")
        ->type_name("FILE")
        ->group("Other");
    // Set again, so that it comes last.
    command.options->set_help_flag("-h,--help", "This text")->group("Other");
    command.options->get_formatter()->column_width(36);
  }
  return commands;
}

int usage_error(std::string_view command, std::string_view message) {
  fmt::print(stderr, "dovetail {}: {}\nTry 'dovetail {} --help'.\n", command, message, command);
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
    fmt::print("dovetail {}\n", DOVETAIL_VERSION);
    return kExitOk;
  }
  if (first == "--help" || first == "-h" || first == "help") {
    fmt::print("{}", overview(commands));
    return kExitOk;
  }
  for (Command& command : commands)
    if (command.name == first) return run_chosen(command, commands, arguments);
  return unknown_command(first, commands);
}

}  // namespace dovetail::cli
