#include "cli/config_file.h"

#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "base/near_match.h"
#include "cli/values.h"

namespace dovetail::cli {
namespace {

// A value that an option takes, as on the command line, and the line it stands in.
struct Setting {
  std::vector<std::string> values;
  std::string key;
  std::size_t line = 0;
};
using Settings = std::map<CLI::Option*, Setting>;

std::string spelled(const toml::node& node) {
  if (!node.is_value()) return "a table or an array";
  std::ostringstream text;
  text << toml::toml_formatter(node);
  return text.str();
}

// The file's table. An error of the library does not leave this function as an exception.
Result<toml::table> parse(const std::string& path) {
  // A device or a pipe may never end, and could not be read again.
  std::error_code unknown;
  const auto kind = std::filesystem::status(path, unknown).type();
  if (kind != std::filesystem::file_type::regular &&
      kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::none) {
    return fail(ErrorKind::kInvalid, "--config: {} is no regular file, expected a TOML file", path);
  }
  if (path.empty()) {
    return fail(ErrorKind::kInvalid, "--config: the name is empty, expected a TOML file");
  }
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    const auto line = error.source().begin.line;
    if (line == 0) return fail(ErrorKind::kIo, "{}: {}", path, error.description());
    return fail(ErrorKind::kInvalid, "{}:{}: {}", path, line, error.description());
  }
}

// Options that a file may set, by long name.
CLI::Option* find_option(const Command& command, std::string_view key) {
  if (key == "help" || key == "config") return nullptr;
  for (CLI::Option* option : command.options->get_options())
    if (option->check_lname(std::string(key))) return option;
  return nullptr;
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.options->get_options()) {
    for (const std::string& name : option->get_lnames())
      if (name != "help" && name != "config") names.push_back(name);
  }
  return names;
}

class Reader {
 public:
  Reader(std::string path, const Command& chosen, const std::vector<Command>& commands)
      : path_(std::move(path)), chosen_(chosen), commands_(commands) {}

  Status read(const toml::table& file) {
    Settings own;  // of the chosen command's table
    for (const auto& [key, node] : file) {
      if (const toml::table* table = node.as_table()) {
        if (const Status ok = read_command(key, *table, own); !ok) return ok;
      } else if (const Status ok = read_shared(key, node); !ok) {
        return ok;
      }
    }
    for (auto& [option, setting] : own) settings_[option] = std::move(setting);
    return {};
  }

  Status apply() {
    for (auto& [option, setting] : settings_) {
      if (option->count() > 0) continue;
      try {
        for (const std::string& value : setting.values) option->add_result(value);
        option->run_callback();
      } catch (const CLI::ParseError& error) {
        std::string_view message = error.what();
        const std::string prefix = option->get_name() + ": ";
        if (message.substr(0, prefix.size()) == prefix) message.remove_prefix(prefix.size());
        return fail(ErrorKind::kInvalid, "{}:{}: {}: {}", path_, setting.line, setting.key,
                    message);
      }
    }
    return {};
  }

 private:
  Status read_command(const toml::key& name, const toml::table& table, Settings& own) {
    for (const Command& command : commands_) {
      if (command.name != name.str()) continue;
      for (const auto& [key, node] : table) {
        CLI::Option* option = find_option(command, key.str());
        if (option == nullptr) return unknown(key, option_names(command), command.name + ".");
        Settings unused;
        const bool chosen = command.name == chosen_.name;
        if (const Status ok = read_option(*option, key, node, chosen ? own : unused); !ok)
          return ok;
      }
      return {};
    }
    std::vector<std::string> names;
    for (const Command& command : commands_) names.push_back(command.name);
    return fail(ErrorKind::kInvalid, "{}:{}: [{}] is no command, expected a table of {}", path_,
                line(name), name.str(), fmt::join(names, ", "));
  }

  Status read_shared(const toml::key& key, const toml::node& node) {
    std::vector<std::string> names;
    bool known = false;
    for (const Command& command : commands_) {
      if (CLI::Option* option = find_option(command, key.str())) {
        Settings unused;
        const bool chosen = command.name == chosen_.name;
        if (const Status ok = read_option(*option, key, node, chosen ? settings_ : unused); !ok)
          return ok;
        known = true;
      }
      for (std::string& name : option_names(command)) names.push_back(std::move(name));
    }
    if (known) return {};
    for (const Command& command : commands_) {
      if (command.name != key.str()) continue;
      return fail(ErrorKind::kInvalid, "{}:{}: {}: {} is no valid value, expected a table", path_,
                  line(key), key.str(), spelled(node));
    }
    return unknown(key, names, "");
  }

  Status read_option(CLI::Option& option, const toml::key& key, const toml::node& node,
                     Settings& to) {
    Setting setting{{}, std::string(key.str()), line(key)};
    const bool list = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    const toml::array* array = list ? node.as_array() : nullptr;
    const std::size_t count = array != nullptr ? array->size() : 1;
    for (std::size_t i = 0; i < count; ++i) {
      const toml::node& element = array != nullptr ? *array->get(i) : node;
      Result<std::string> value = as_text(option, element, list);
      if (!value) {
        return fail(ErrorKind::kInvalid, "{}:{}: {}: {}", path_, setting.line, setting.key,
                    value.error().message);
      }
      setting.values.push_back(*std::move(value));
    }
    if (to.contains(&option)) {
      return fail(ErrorKind::kInvalid, "{}:{}: {}: it is another name of {}, which is set already",
                  path_, setting.line, setting.key, to[&option].key);
    }
    if (!setting.values.empty()) to[&option] = std::move(setting);
    return {};
  }

  // The value as the command line would have it. Kinds are told by the option's placeholder.
  static Result<std::string> as_text(const CLI::Option& option, const toml::node& node, bool list) {
    const std::string type = option.get_expected_max() == 0 ? "" : option.get_type_name();
    const auto boolean = node.value_exact<bool>();
    const auto integer = node.value_exact<std::int64_t>();
    const auto number = node.value_exact<double>();
    const auto text = node.value_exact<std::string>();
    std::string_view expected = "a string";
    if (type.empty()) {
      if (boolean) return *boolean ? "true" : "false";
      expected = "true or false";
    } else if (type == kInteger) {
      if (integer) return std::to_string(*integer);
      expected = "an integer";
    } else if (type == kNumber) {
      if (integer) return std::to_string(*integer);
      if (number) return fmt::format("{}", *number);
      expected = "a number";
    } else if (type == kBytes) {
      if (integer) return std::to_string(*integer);
      if (text) return *text;
      expected = "an integer or a string such as \"4G\"";
    } else if (text) {
      return *text;
    } else if (list) {
      expected = "a string or an array of strings";
    }
    return fail(ErrorKind::kInvalid, "{} is no valid value, expected {}", spelled(node), expected);
  }

  tl::unexpected<Error> unknown(const toml::key& key, const std::vector<std::string>& names,
                                std::string_view prefix) const {
    const std::vector<std::string> near = near_matches(key.str(), names);
    if (near.empty()) {
      return fail(ErrorKind::kInvalid,
                  "{}:{}: unknown key {}{}, expected a long option name such as max-num-seqs",
                  path_, line(key), prefix, key.str());
    }
    return fail(ErrorKind::kInvalid, "{}:{}: unknown key {}{}, did you mean {}", path_, line(key),
                prefix, key.str(), fmt::join(near, ", "));
  }

  static std::size_t line(const toml::key& key) { return key.source().begin.line; }

  std::string path_;
  const Command& chosen_;
  const std::vector<Command>& commands_;
  Settings settings_;
};

}  // namespace

Status apply_config(Command& chosen, const std::vector<Command>& commands) {
  const CLI::Option* config = chosen.options->get_option("--config");
  if (config->count() == 0) return {};
  const std::string path = config->results().back();
  const Result<toml::table> file = parse(path);
  if (!file) return fail(file.error());
  Reader reader(path, chosen, commands);
  if (const Status ok = reader.read(*file); !ok) return ok;
  return reader.apply();
}

}  // namespace dovetail::cli
