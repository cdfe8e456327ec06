#include "schedule/history_runner.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>
#include <vector>

#include "schedule/driver.h"
#include "schedule/law_checker.h"

namespace dovetail::schedule {
namespace {

struct Statement {
  std::size_t line = 0;
  std::vector<std::string> words;  // a quoted text is one word, with its opening quote
};

using Words = std::vector<std::string>;

tl::unexpected<Error> malformed(std::string message) {
  return fail(Error{ErrorKind::kInvalid, std::move(message)});
}
tl::unexpected<Error> failed(std::string message) {
  return fail(Error{ErrorKind::kInternal, std::move(message)});
}

Result<std::vector<Statement>> parse(std::string_view script, std::size_t& line) {
  std::vector<Statement> statements;
  Statement current;
  std::string word;
  bool quoted = false;
  const auto end_word = [&] {
    if (!word.empty()) current.words.push_back(std::exchange(word, {}));
  };
  const auto end_statement = [&] {
    end_word();
    current.line = line;
    if (!current.words.empty()) statements.push_back(std::exchange(current, {}));
  };
  line = 1;
  bool comment = false;
  for (const char c : script) {
    if (c == '\n') {
      if (quoted) return malformed("a quoted text does not end in its line");
      end_statement();
      comment = false;
      ++line;
    } else if (comment) {
      continue;
    } else if (c == '"') {
      if (!quoted) end_word();
      if (!quoted) word.assign(1, '"');
      if (quoted) end_word();
      quoted = !quoted;
    } else if (quoted) {
      word += c;
    } else if (c == '#') {
      comment = true;
    } else if (c == ';') {
      end_statement();
    } else if (c == ' ' || c == '\t' || c == '\r') {
      end_word();
    } else {
      word += c;
    }
  }
  if (quoted) return malformed("a quoted text does not end in its line");
  end_statement();
  return statements;
}

Result<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    return malformed(fmt::format("'{}' is no number", text));
  }
  return value;
}

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && letter(text.front()) && text != "none" &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || digit(c) || c == '_'; });
}

// The words from `begin` on as key=number, each of `keys` at most once.
Result<std::map<std::string, std::uint32_t>> settings(const Words& words, std::size_t begin,
                                                      const std::vector<std::string>& keys) {
  std::map<std::string, std::uint32_t> values;
  for (std::size_t i = begin; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    if (equals == std::string::npos || std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return malformed(
          fmt::format("'{}': expected {}=NUMBER", words[i], fmt::join(keys, "=NUMBER or ")));
    }
    const Result<std::uint32_t> value = number(std::string_view(words[i]).substr(equals + 1));
    if (!value) return fail(value.error());
    if (!values.emplace(key, *value).second) return malformed(fmt::format("'{}' twice", key));
  }
  return values;
}

class Runner {
 public:
  Status run(const Statement& statement);
  Status finish() const;

 private:
  Status options(const Words& words);
  Status add(const Words& words);
  Status cancel(const Words& words);
  Status finish_next(const Words& words);
  Status plan();
  Status commit();
  Status step(const Words& words);
  Status until(const Words& words);
  Status expect(const Words& words);
  Status expect_refused(const Words& words);
  Status expect_count(const Words& words, std::uint64_t seen) const;
  Status expect_names(const Words& words, const std::vector<SequenceId>& seen) const;
  Status expect_blocks(const Words& words, std::size_t begin,
                       const std::vector<kv::BlockId>& seen) const;
  Status expect_rows(const Words& words) const;

  Status judge();
  Result<SequenceId> known(const std::string& name) const;
  std::string name(SequenceId id) const { return names_.at(id); }
  std::string render(const StepPlan& plan) const;

  std::optional<Driver> driver_;
  std::optional<LawChecker> checker_;
  std::size_t judged_ = 0;
  std::vector<std::string> names_;
  std::map<std::string, SequenceId> ids_;
  bool planned_ = false;
  std::string refusal_;  // of the add just before, until it is expected
  std::vector<kv::BlockId> freed_;
};

Status same(const std::string& what, const std::string& expected, const std::string& seen) {
  if (expected == seen) return {};
  return failed(fmt::format("expected {} {}, got {}", what, expected, seen));
}

Status argument_count(const Words& words, std::size_t count, std::string_view usage) {
  if (words.size() == count) return {};
  return malformed(fmt::format("expected: {}", usage));
}

Status Runner::run(const Statement& statement) {
  const Words& words = statement.words;
  const std::string& verb = words.front();
  if (!driver_ && verb != "options") return malformed("the first statement must be 'options'");
  if (!refusal_.empty() && !(verb == "expect" && words.size() > 1 && words[1] == "refused")) {
    return failed(fmt::format("the add before was refused: {}", refusal_));
  }
  if (verb == "options") return options(words);
  if (verb == "add") return add(words);
  if (verb == "cancel") return cancel(words);
  if (verb == "finish") return finish_next(words);
  if (verb == "plan" || verb == "commit") {
    if (const Status ok = argument_count(words, 1, verb); !ok) return ok;
    return verb == "plan" ? plan() : commit();
  }
  if (verb == "step") return step(words);
  if (verb == "until") return until(words);
  if (verb == "expect") return expect(words);
  return malformed(fmt::format("'{}' is no statement", verb));
}

Status Runner::finish() const {
  if (!driver_) return malformed("the script is empty");
  if (!refusal_.empty()) {
    return failed(fmt::format("the last add was refused: {}", refusal_));
  }
  if (driver_->plan_under_way()) return malformed("the script ends between plan and commit");
  return {};
}

Status Runner::options(const Words& words) {
  if (driver_) return malformed("'options' twice");
  const auto values =
      settings(words, 1, {"slots", "budget", "block", "blocks", "context", "threshold", "queue"});
  if (!values) return fail(values.error());
  for (const std::string key : {"slots", "budget", "block", "blocks", "context"}) {
    const auto value = values->find(key);
    if (value == values->end() || value->second == 0) {
      return malformed(fmt::format("options need {}=NUMBER, at least 1", key));
    }
  }
  SchedulerOptions options;
  options.max_num_seqs = values->at("slots");
  options.max_num_batched_tokens = values->at("budget");
  options.block_size = values->at("block");
  options.kv_blocks = values->at("blocks");
  options.max_context = values->at("context");
  if (values->contains("threshold")) options.long_prefill_token_threshold = values->at("threshold");
  if (values->contains("queue")) options.max_waiting = values->at("queue");
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    return malformed("the budget must be at least the slots");
  }
  constexpr std::uint32_t kMost = 1U << 20;
  if (options.max_num_seqs > kMost || options.kv_blocks > kMost || options.block_size > kMost) {
    return malformed(fmt::format("slots, blocks and block must be at most {}", kMost));
  }
  if (kv::blocks_for(options.max_context, options.block_size) > options.kv_blocks) {
    return malformed("the context must fit the blocks");
  }
  driver_.emplace(options);
  checker_.emplace(options);
  return {};
}

Status Runner::add(const Words& words) {
  if (words.size() < 3 || !is_name(words[1])) {
    return malformed("expected: add NAME prompt=NUMBER [max=NUMBER]");
  }
  const auto values = settings(words, 2, {"prompt", "max"});
  if (!values) return fail(values.error());
  if (!values->contains("prompt") || values->at("prompt") == 0) {
    return malformed("add needs prompt=NUMBER, at least 1");
  }
  if (values->contains("max") && values->at("max") == 0) return malformed("max must be at least 1");
  if (ids_.contains(words[1])) return malformed(fmt::format("'{}' twice", words[1]));
  const SequenceId id = names_.size();
  names_.push_back(words[1]);
  ids_[words[1]] = id;
  const Status added =
      driver_->add(id, values->at("prompt"), values->contains("max") ? values->at("max") : 0);
  if (!added) refusal_ = added.error().message;
  return judge();
}

Status Runner::cancel(const Words& words) {
  if (const Status ok = argument_count(words, 2, "cancel NAME"); !ok) return ok;
  const Result<SequenceId> id = known(words[1]);
  if (!id) return fail(id.error());
  driver_->cancel(*id);
  return judge();
}

Status Runner::finish_next(const Words& words) {
  if (const Status ok = argument_count(words, 2, "finish NAME"); !ok) return ok;
  const Result<SequenceId> id = known(words[1]);
  if (!id) return fail(id.error());
  if (!driver_->alive(*id)) return malformed(fmt::format("{} has ended already", words[1]));
  driver_->finish_next(*id);
  return {};
}

Status Runner::plan() {
  if (driver_->plan_under_way()) return malformed("a plan is under way: commit it first");
  if (const Status ok = driver_->plan(); !ok) return ok;
  planned_ = true;
  return judge();
}

Status Runner::commit() {
  if (!driver_->plan_under_way()) return malformed("no plan is under way");
  driver_->commit();
  return judge();
}

Status Runner::step(const Words& words) {
  if (words.size() > 2) return malformed("expected: step [NUMBER]");
  const Result<std::uint32_t> times = words.size() == 2 ? number(words[1]) : 1;
  if (!times) return fail(times.error());
  for (std::uint32_t i = 0; i < *times; ++i) {
    if (const Status ok = plan(); !ok) return ok;
    if (const Status ok = commit(); !ok) return ok;
  }
  return {};
}

Status Runner::until(const Words& words) {
  constexpr std::string_view kUsage =
      "until idle limit=NUMBER, until finished NAME limit=NUMBER or until preempted NAME "
      "limit=NUMBER";
  const bool idle = words.size() > 1 && words[1] == "idle";
  const std::size_t length = idle ? 3 : 4;
  if (words.size() != length || (!idle && words[1] != "finished" && words[1] != "preempted")) {
    return malformed(fmt::format("expected: {}", kUsage));
  }
  const auto values = settings(words, length - 1, {"limit"});
  if (!values) return fail(values.error());
  SequenceId id = 0;
  if (!idle) {
    const Result<SequenceId> found = known(words[2]);
    if (!found) return fail(found.error());
    id = *found;
  }
  const auto reached = [&] {
    if (idle) return driver_->scheduler().idle();
    const auto& seen =
        words[1] == "finished" ? driver_->finished() : driver_->last_plan().preempted;
    return planned_ && std::find(seen.begin(), seen.end(), id) != seen.end();
  };
  std::uint32_t steps = 0;
  // What the step before brought about is not waited for: only idleness may hold at once.
  bool done = idle && reached();
  while (!done) {
    if (steps++ == values->at("limit")) {
      return failed(fmt::format("not {} after {} steps", idle ? "idle" : words[1] + " " + words[2],
                                values->at("limit")));
    }
    if (const Status ok = step({"step"}); !ok) return ok;
    done = reached();
  }
  return {};
}

Status Runner::expect(const Words& words) {
  if (words.size() < 2) return malformed("expect what?");
  const std::string& what = words[1];
  const Scheduler& scheduler = driver_->scheduler();
  if (what == "refused") return expect_refused(words);
  if (what == "free") return expect_count(words, scheduler.pool().free());
  if (what == "running") return expect_count(words, scheduler.running());
  if (what == "waiting") return expect_count(words, scheduler.waiting());
  if (what == "preemptions") return expect_count(words, scheduler.preemptions());
  if (what == "freed") return expect_blocks(words, 2, std::exchange(freed_, {}));
  if (what == "idle") {
    if (const Status ok = argument_count(words, 2, "expect idle"); !ok) return ok;
    if (scheduler.idle()) return {};
    return failed(fmt::format("expected idle, got {} running and {} waiting", scheduler.running(),
                              scheduler.waiting()));
  }
  if (what == "generated") {
    if (const Status ok = argument_count(words, 4, "expect generated NAME NUMBER"); !ok) return ok;
    const Result<SequenceId> id = known(words[2]);
    if (!id) return fail(id.error());
    return expect_count(words, driver_->generated(*id));
  }

  if (!planned_) return malformed(fmt::format("'expect {}' needs a plan before", what));
  const StepPlan& last = driver_->last_plan();
  if (what == "rows") return expect_rows(words);
  if (what == "tokens") return expect_count(words, last.tokens);
  if (what == "admitted") return expect_names(words, last.admitted);
  if (what == "preempted") return expect_names(words, last.preempted);
  if (what == "finished") {
    if (driver_->plan_under_way()) return malformed("'expect finished' needs a commit before");
    return expect_names(words, driver_->finished());
  }
  if (what == "slot" || what == "blocks") {
    if (words.size() < 3) return malformed(fmt::format("expected: expect {} NAME ...", what));
    const Result<SequenceId> id = known(words[2]);
    if (!id) return fail(id.error());
    const Row* row = driver_->row_of(*id);
    if (row == nullptr) return failed(fmt::format("{} has no row in the last plan", words[2]));
    if (what == "slot") {
      if (const Status ok = argument_count(words, 4, "expect slot NAME NUMBER"); !ok) return ok;
      return expect_count(words, row->slot);
    }
    const auto table = last.block_table(*row);
    return expect_blocks(words, 3, {table.begin(), table.end()});
  }
  return malformed(fmt::format("'expect {}' is no statement", what));
}

Status Runner::expect_refused(const Words& words) {
  if (words.size() != 3 || words[2].front() != '"' || words[2].size() < 2) {
    return malformed("expected: expect refused \"part of the message\"");
  }
  const std::string refusal = std::exchange(refusal_, {});
  if (refusal.empty()) return failed("nothing was refused just before");
  const std::string part = words[2].substr(1);
  if (refusal.find(part) != std::string::npos) return {};
  return failed(fmt::format("expected a refusal with \"{}\", got \"{}\"", part, refusal));
}

// The number is the last word.
Status Runner::expect_count(const Words& words, std::uint64_t seen) const {
  if (words.size() < 3) return malformed(fmt::format("expected: expect {} NUMBER", words[1]));
  const std::size_t length = words[1] == "generated" || words[1] == "slot" ? 4 : 3;
  if (words.size() != length) return malformed("too many words");
  const Result<std::uint32_t> expected = number(words.back());
  if (!expected) return fail(expected.error());
  return same(words[1], std::to_string(*expected), std::to_string(seen));
}

Status Runner::expect_names(const Words& words, const std::vector<SequenceId>& seen) const {
  if (words.size() < 3) {
    return malformed(fmt::format("expected: expect {} NAME... or none", words[1]));
  }
  const Words expected(words.begin() + 2, words.end());
  if (expected != Words{"none"}) {
    for (const std::string& word : expected) {
      if (const auto id = known(word); !id) return fail(id.error());
    }
  }
  Words names;
  for (const SequenceId id : seen) names.push_back(name(id));
  if (names.empty()) names = {"none"};
  return same(words[1], fmt::format("{}", fmt::join(expected, " ")),
              fmt::format("{}", fmt::join(names, " ")));
}

Status Runner::expect_blocks(const Words& words, std::size_t begin,
                             const std::vector<kv::BlockId>& seen) const {
  if (words.size() <= begin) return malformed("which blocks? (or none)");
  const Words expected(words.begin() + static_cast<std::ptrdiff_t>(begin), words.end());
  if (expected != Words{"none"}) {
    for (const std::string& word : expected) {
      if (const auto block = number(word); !block) return fail(block.error());
    }
  }
  return same(words[1], fmt::format("{}", fmt::join(expected, " ")),
              seen.empty() ? "none" : fmt::format("{}", fmt::join(seen, " ")));
}

Status Runner::expect_rows(const Words& words) const {
  constexpr std::string_view kUsage =
      "expect rows [NAME:FIRST+TOKENS[*]]... [| NAME:FIRST+TOKENS[*]...] or none";
  if (words.size() < 3) return malformed(fmt::format("expected: {}", kUsage));
  const Words expected(words.begin() + 2, words.end());
  bool bar = false;
  for (const std::string& word : expected) {
    if (word == "|" && !bar && &word != &expected.back()) {
      bar = true;
      continue;
    }
    if (word == "none" && expected.size() == 1) continue;
    const std::size_t colon = word.find(':');
    const std::size_t plus = word.find('+');
    if (colon == std::string::npos || plus == std::string::npos || plus < colon) {
      return malformed(fmt::format("'{}': expected: {}", word, kUsage));
    }
    if (const auto id = known(word.substr(0, colon)); !id) return fail(id.error());
    const std::string_view text = word;
    const std::size_t end = text.back() == '*' ? text.size() - 1 : text.size();
    for (const std::string_view part :
         {text.substr(colon + 1, plus - colon - 1), text.substr(plus + 1, end - plus - 1)}) {
      if (const auto value = number(part); !value) return fail(value.error());
    }
  }
  return same("rows", fmt::format("{}", fmt::join(expected, " ")), render(driver_->last_plan()));
}

// Lets the checker see what has happened since it last looked.
Status Runner::judge() {
  const std::vector<Event>& events = driver_->history().events;
  for (; judged_ < events.size(); ++judged_) {
    checker_->see(events[judged_]);
    freed_.insert(freed_.end(), events[judged_].freed.begin(), events[judged_].freed.end());
  }
  if (checker_->violations().empty()) return {};
  return failed(fmt::format("a law is broken: {}", checker_->violations().front()));
}

Result<SequenceId> Runner::known(const std::string& name) const {
  const auto id = ids_.find(name);
  if (id == ids_.end()) return malformed(fmt::format("nothing called '{}' was added", name));
  return id->second;
}

std::string Runner::render(const StepPlan& plan) const {
  if (plan.rows.empty()) return "none";
  Words parts;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const Row& row = plan.rows[i];
    if (i == plan.prefill_rows) parts.push_back("|");
    parts.push_back(fmt::format("{}:{}+{}{}", name(row.sequence), row.first_position, row.tokens,
                                row.sampled ? "*" : ""));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace

std::optional<std::string> run_history(std::string_view script, std::string_view name) {
  const auto fault = [&](std::size_t line, const Error& error) {
    return fmt::format("{}:{}: {}{}", name, line,
                       error.kind == ErrorKind::kInvalid ? "malformed: " : "", error.message);
  };
  std::size_t line = 1;
  const auto statements = parse(script, line);
  if (!statements) return fault(line, statements.error());
  Runner runner;
  for (const Statement& statement : *statements) {
    line = statement.line;
    if (const Status ok = runner.run(statement); !ok) return fault(line, ok.error());
  }
  if (const Status ok = runner.finish(); !ok) return fault(line, ok.error());
  return std::nullopt;
}

}  // namespace dovetail::schedule
