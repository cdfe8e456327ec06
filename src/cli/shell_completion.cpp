#include "cli/shell_completion.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

namespace dovetail::cli {
namespace {

// What an option or argument chooses from: the placeholder says "a|b|c", or COMMAND.
std::vector<std::string> value_choices(const CLI::Option& option,
                                       const std::vector<Command>& commands) {
  const std::string type = option.get_type_name();
  std::vector<std::string> found;
  if (type == kCommandArgument) {
    for (const Command& command : commands) found.push_back(command.name);
  }
  if (type.find('|') == std::string::npos) return found;
  for (std::size_t begin = 0; begin <= type.size();) {
    const std::size_t end = std::min(type.find('|', begin), type.size());
    found.push_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
  return found;
}

std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> all;
  for (const std::string& name : option.get_lnames()) all.push_back("--" + name);
  for (const std::string& name : option.get_snames()) all.push_back("-" + name);
  return all;
}

bool takes_no_value(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// An App and those below it: the words that lead to it, and it.
struct AppNode {
  std::string words;
  const CLI::App* app;
};

std::vector<AppNode> app_nodes(const std::vector<Command>& commands) {
  std::vector<AppNode> found;
  for (const Command& command : commands) {
    found.push_back({command.name, command.options.get()});
    for (const CLI::App* part : command.options->get_subcommands({}))
      found.push_back({command.name + " " + part->get_name(), part});
  }
  return found;
}

// Words that may stand first in the App without a dash.
std::vector<std::string> first_words(const CLI::App& app, const std::vector<Command>& commands) {
  std::vector<std::string> words;
  for (const CLI::App* part : app.get_subcommands({})) words.push_back(part->get_name());
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    for (std::string& word : value_choices(*option, commands)) words.push_back(std::move(word));
  }
  return words;
}

std::string bash_script(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  std::string values, options, words;
  for (const AppNode& node : app_nodes(commands)) {
    std::vector<std::string> all;
    for (const CLI::Option* option : node.app->get_options()) {
      const std::vector<std::string> own = spellings(*option);
      all.insert(all.end(), own.begin(), own.end());
      const std::vector<std::string> chosen = value_choices(*option, commands);
      if (chosen.empty()) continue;
      for (const std::string& name : own)
        values +=
            fmt::format("    '{} {}') words='{}' ;;\n", node.words, name, fmt::join(chosen, " "));
    }
    options += fmt::format("    '{}') words='{}' ;;\n", node.words, fmt::join(all, " "));
    if (const std::vector<std::string> first = first_words(*node.app, commands); !first.empty())
      words += fmt::format("    '{}') words='{}' ;;\n", node.words, fmt::join(first, " "));
  }
  return fmt::format(
      R"(# bash completion for dovetail, made by "dovetail completion bash".
_dovetail() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words= at=${{COMP_WORDS[1]}}
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '{} --help --version' -- "$word"))
    return
  fi
  case "$at ${{COMP_WORDS[2]}}" in
{}  esac
  case "$at $before" in
{}  esac
  if [[ -n $words ]]; then
    :
  elif [[ $word == -* ]]; then
    case $at in
{}    esac
  elif [[ $before == "${{at##* }}" ]]; then
    case $at in
{}    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _dovetail dovetail
)",
      fmt::join(names, " "),
      [&] {
        std::string nested;
        for (const AppNode& node : app_nodes(commands)) {
          if (node.words.find(' ') != std::string::npos)
            nested +=
                fmt::format("    '{}') ((COMP_CWORD > 2)) && at='{}' ;;\n", node.words, node.words);
        }
        return nested;
      }(),
      values, options, words);
}

// Within single quotes, in the words of zsh's _arguments.
std::string zsh_quoted(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else if (c == '\n') {
      quoted += ' ';
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted;
}

std::string zsh_specs(const CLI::App& app, const std::vector<Command>& commands) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> chosen = value_choices(*option, commands);
    const std::string action =
        !chosen.empty() ? fmt::format("({})", fmt::join(chosen, " ")) : std::string("_files");
    const std::string value =
        takes_no_value(*option)
            ? ""
            : fmt::format(":{}:{}", zsh_quoted(option->get_type_name()), action);
    for (const std::string& name : spellings(*option)) {
      text += fmt::format(" \\\n        '*{}[{}]{}'", name, zsh_quoted(option->get_description()),
                          value);
    }
  }
  const std::vector<std::string> first = first_words(app, commands);
  if (!first.empty()) text += fmt::format(" \\\n        '1:word:({})'", fmt::join(first, " "));
  return text + " \\\n        '*:file:_files'";
}

std::string zsh_script(const std::vector<Command>& commands) {
  std::string names, cases;
  for (const Command& command : commands)
    names += fmt::format("    '{}:{}'\n", command.name, zsh_quoted(command.summary));
  for (const AppNode& node : app_nodes(commands)) {
    // The nested ones first: "pipeline run" before all that begins with "pipeline ".
    const bool nested = node.words.find(' ') != std::string::npos;
    const std::string pattern =
        nested ? fmt::format("'{}'", node.words) : fmt::format("'{} '*", node.words);
    const std::string one =
        fmt::format("    {}) _arguments{} ;;\n", pattern, zsh_specs(*node.app, commands));
    cases = nested ? one + cases : cases + one;
  }
  return fmt::format(R"(#compdef dovetail
# zsh completion for dovetail, made by "dovetail completion zsh".
_dovetail() {{
  local -a commands=(
{}  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local at="$words[2] ${{words[3]}}"
  shift words
  ((CURRENT--))
  case $at in
{}  esac
}}
if [[ $funcstack[1] == _dovetail ]]; then
  _dovetail "$@"
else
  compdef _dovetail dovetail
fi
)",
                     names, cases);
}

}  // namespace

Result<std::string> completion_script(const std::string& shell,
                                      const std::vector<Command>& commands) {
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  return fail(ErrorKind::kInvalid, "'{}' is no shell that is known here, expected bash or zsh",
              shell);
}

}  // namespace dovetail::cli
