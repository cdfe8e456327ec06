#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dovetail::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;

// One command of the program: its options and what it does once they have been read. An Error of
// the action is printed by the caller and means kExitFailed; a usage error that only shows when all
// options are known is returned by usage_error().
struct Command {
  std::string name;
  std::string summary;
  std::unique_ptr<CLI::App> options;
  std::function<Result<int>()> action;
};

// Each in its own file: run_command.cpp and so on.
Command run_command();
Command pipeline_command();
Command chat_command();
Command serve_command();
Command inspect_command();
Command tokenize_command();
Command embed_command();
Command rerank_command();
Command bench_command();
Command perplexity_command();
Command simulate_command();
Command cores_command();
Command help_command();
Command completion_command();

// All of them, in the order of the help.
std::vector<Command> all_commands();

// What `dovetail help` says, and of it what a MODEL is.
std::string overview(const std::vector<Command>& commands);
inline constexpr std::string_view kModelText =
    "MODEL is a GGUF file (of a split, any part) or a Hugging Face folder with safetensors.";

// The placeholder of an argument that is a command's name.
inline constexpr const char* kCommandArgument = "COMMAND";

// Says that there is no such command, and what may have been meant; returns kExitUsage.
int unknown_command(const std::string& name, const std::vector<Command>& commands);

// Prints "dovetail NAME: MESSAGE" and where to find help; returns kExitUsage.
int usage_error(std::string_view command, std::string_view message);

// Runs the command line without the program's name and returns the exit code: 0 done; 1 bad input
// or model, or the work failed; 2 a usage error; 128 + n ended by signal n. Errors are one line on
// standard error.
int run_app(const std::vector<std::string>& arguments);

}  // namespace dovetail::cli
