#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedule/scheduler.h"

namespace dovetail::schedule {

// Runs a script in the language of tests/histories/README.md, under the law checker. Empty when it
// holds; else the first fault as "name:line: what".
std::optional<std::string> run_history(std::string_view text, std::string_view name);

}  // namespace dovetail::schedule

// The parser of the language of tests/histories/README.md. A statement that cannot be parsed is an
// error of kind kInvalid.
namespace dovetail::schedule::script {

using Words = std::vector<std::string>;

struct Statement {
  std::size_t line = 0;
  Words words;  // a quoted text is one word, with its opening quote
};

tl::unexpected<Error> malformed(std::string message);

// `line` is where it ended, which is where the fault is.
Result<std::vector<Statement>> parse(std::string_view script, std::size_t& line);

Result<std::uint32_t> number(std::string_view text);
bool is_name(std::string_view text);

// The words from `begin` on as key=value, each of `keys` at most once.
using Settings = std::map<std::string, std::string, std::less<>>;
Result<Settings> settings(const Words& words, std::size_t begin, const Words& keys);

// Stores the value under `key`, if there is one, in `target`.
Status read(const Settings& values, std::string_view key, std::uint32_t& target);
Status read(const Settings& values, std::string_view key, std::int32_t& target);
Status read(const Settings& values, std::string_view key, bool& target);  // 0 or 1

// The statement `options`.
struct Options {
  SchedulerOptions scheduler;
  StepCost cost;
};
Result<Options> options(const Words& words);

// The statement `add`, its NAME left to the caller.
struct Arrival {
  SequenceSpec spec;
  std::uint32_t family = 0;
  std::uint32_t shared = 0;  // tokens that the prompts of the family begin with
  std::string continues;     // a name, or empty
};
Result<Arrival> arrival(const Words& words);

}  // namespace dovetail::schedule::script
