#include "cli/man_page.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace dovetail::cli {
namespace {

// Text of a line or several as roff shows it.
std::string roff(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool first = i == 0 || text[i - 1] == '\n';
    if (first && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

std::string man_tag(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames())
    names.push_back("\\fB" + roff("-" + name) + "\\fR");
  for (const std::string& name : option.get_lnames())
    names.push_back("\\fB" + roff("--" + name) + "\\fR");
  if (names.empty()) return "\\fI" + roff(option.get_name(true)) + "\\fR";
  const bool flag = option.get_items_expected_max() == 0;
  return fmt::format("{}{}", fmt::join(names, ", "),
                     flag ? "" : " \\fI" + roff(option.get_type_name()) + "\\fR");
}

// The App's options, group by group in the order of their first.
std::string man_options(const CLI::App& app) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : app.get_options()) {
    const std::string& group = option->get_group();
    if (!group.empty() && std::find(groups.begin(), groups.end(), group) == groups.end())
      groups.push_back(group);
  }
  std::string text;
  for (const std::string& group : groups) {
    text += fmt::format(".PP\n{}:\n", roff(group));
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() != group) continue;
      text += fmt::format(".TP\n{}\n{}\n", man_tag(*option), roff(option->get_description()));
    }
  }
  return text;
}

std::string man_positionals(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional()) text += " [" + option->get_name(true) + "]";
  return text;
}

std::string man_section(const std::string& words, const CLI::App& app) {
  std::string text = fmt::format(".SS \"dovetail {}{} [OPTIONS]\"\n{}\n", roff(words),
                                 roff(man_positionals(app)), roff(app.get_description()));
  text += man_options(app);
  for (const CLI::App* part : app.get_subcommands({}))
    text += man_section(words + " " + part->get_name(), *part);
  return text;
}

}  // namespace

std::string man_page(const std::vector<Command>& commands, std::string_view version) {
  std::string text = fmt::format(
      ".TH DOVETAIL 1 \"\" \"{}\"\n"
      ".SH NAME\ndovetail \\- runs language models on CPUs\n"
      ".SH SYNOPSIS\n.B dovetail\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR] ...\n"
      ".SH DESCRIPTION\n{}\n"
      ".SH COMMANDS\n",
      version, roff(kModelText));
  for (const Command& command : commands)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(command.name), roff(command.summary));
  text += ".SH OPTIONS OF COMMANDS\n";
  for (const Command& command : commands) text += man_section(command.name, *command.options);
  text +=
      ".SH EXIT STATUS\n0 done; 1 bad input or model, or the work failed; 2 a usage error; "
      "128 + n ended by signal n.\n";
  return text;
}

}  // namespace dovetail::cli
