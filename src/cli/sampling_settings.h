#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/sampling_options.h"

namespace dovetail::cli {

// Sampling options that change while a program runs, by the names and checks of the command line.
class SamplingSettings {
 public:
  // Those of add_sampling_options() that were given to `parsed`.
  static Result<SamplingSettings> create(const CLI::App& parsed);

  const SamplingOptions& options() const { return options_; }

  // Without the two dashes, in the order of the help.
  static std::vector<std::string> names();

  // What values they take where that is a list, after their names: "true", "false" of a switch,
  // and "default" of all.
  static std::vector<std::pair<std::string, std::string>> values_offered();

  // Sets one; "default" takes it back, and a value in double quotes is a JSON string. A wrong name
  // or value changes nothing.
  Status set(const std::string& name, const std::string& value);

 private:
  using Given = std::map<std::string, std::vector<std::string>>;  // by name

  Status take(Given given);

  Given given_;
  SamplingOptions options_;
};

// What a request that these options led to samples with: names as of SamplingSettings, and values
// in words.
std::vector<std::pair<std::string, std::string>> sampling_values(const Request& request,
                                                                 const SamplingOptions& options);

}  // namespace dovetail::cli
