#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "laws/checker/law_checker.h"
#include "schedule/driver.h"
#include "schedule/history_script.h"

namespace dovetail::schedule {
namespace {

using script::malformed;
using script::number;
using script::Statement;
using script::Words;

tl::unexpected<Error> failed(std::string message) {
  return fail(Error{ErrorKind::kInternal, std::move(message)});
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
  Status drafts(const Words& words);
  Status withhold(const Words& words);
  Status plan(const Words& words);
  Status commit(const Words& words);
  Status step(const Words& words);
  Status until(const Words& words);
  Status expect(const Words& words);
  Status expect_of_plan(const Words& words);
  Status expect_refused(const Words& words);
  Status expect_idle(const Words& words) const;
  Status expect_class(const Words& words) const;
  Status expect_cached(const Words& words) const;
  Status expect_count(const Words& words, std::size_t length, std::uint64_t seen) const;
  Status expect_names(const Words& words, const std::vector<SequenceId>& seen) const;
  Status expect_blocks(const Words& words, std::size_t begin,
                       std::span<const kv::BlockId> seen) const;
  Status expect_rows(const Words& words) const;

  Status fill_prompt(const script::Arrival& arrival, SequenceId id);
  std::vector<kv::BlockId> take_released();
  Status judge();
  Result<SequenceId> known(const std::string& name) const;
  const std::string& name(SequenceId id) const { return sequences_.at(id).name; }
  std::string render(const StepPlan& plan) const;

  struct Sequence {
    std::string name;
    std::uint32_t batch_class = 0;
    std::vector<std::int32_t> prompt;  // with a prefix cache
  };

  std::optional<Driver> driver_;
  std::optional<laws::LawChecker> checker_;
  std::vector<Sequence> sequences_;  // by id
  std::map<std::string, SequenceId> ids_;
  std::size_t under_way_ = 0;
  bool planned_ = false, committed_ = false;
  std::string refusal_;  // of the add just before, until it is expected
  std::vector<kv::BlockId> released_;
  std::uint64_t read_ = 0;  // events
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
  if (verb == "drafts") return drafts(words);
  if (verb == "withhold") return withhold(words);
  if (verb == "plan") return plan(words);
  if (verb == "commit") return commit(words);
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
  if (under_way_ > 0) return malformed("the script ends between plan and commit");
  return {};
}

Status Runner::options(const Words& words) {
  if (driver_) return malformed("'options' twice");
  const Result<script::Options> options = script::options(words);
  if (!options) return fail(options.error());
  driver_.emplace(options->scheduler);
  checker_.emplace(options->scheduler, options->cost.known());
  if (options->cost.known()) driver_->scheduler().set_cost(options->cost);
  return {};
}

Status Runner::add(const Words& words) {
  if (words.size() < 3 || !script::is_name(words[1])) {
    return malformed("expected: add NAME prompt=NUMBER ...");
  }
  Result<script::Arrival> arrival = script::arrival(words);
  if (!arrival) return fail(arrival.error());
  if (ids_.contains(words[1])) return malformed(fmt::format("'{}' twice", words[1]));
  const SequenceId id = sequences_.size();
  sequences_.push_back({words[1], arrival->spec.batch_class, {}});
  SequenceSpec& spec = arrival->spec;
  spec.id = id;
  if (driver_->scheduler().options().prefix_cache) {
    if (const Status ok = fill_prompt(*arrival, id); !ok) return ok;
    spec.prompt = sequences_[id].prompt;
    spec.root = kv::root_hash(std::as_bytes(std::span(&spec.tenant, 1)));
  } else if (arrival->shared > 0 || !arrival->continues.empty()) {
    return malformed("only with prefix=1 do tokens matter");
  }
  ids_[words[1]] = id;
  const Status added = driver_->add(spec);
  if (!added) refusal_ = added.error().message;
  return judge();
}

// At one position the tokens of two prompts are equal only where they are shared.
Status Runner::fill_prompt(const script::Arrival& arrival, SequenceId id) {
  std::vector<std::int32_t>& prompt = sequences_[id].prompt;
  if (!arrival.continues.empty()) {
    const Result<SequenceId> before = known(arrival.continues);
    if (!before) return fail(before.error());
    prompt = sequences_[*before].prompt;
    for (std::uint32_t k = 0; k < driver_->generated(*before); ++k) {
      prompt.push_back(Driver::token(*before, k));
    }
    if (prompt.size() > arrival.spec.prompt_tokens) {
      return malformed(fmt::format("{} has {} tokens by now, more than this prompt",
                                   arrival.continues, prompt.size()));
    }
  }
  for (auto i = static_cast<std::uint32_t>(prompt.size()); i < arrival.spec.prompt_tokens; ++i) {
    const bool shared = i < arrival.shared;
    const auto writer = shared ? arrival.family : static_cast<std::uint32_t>(id);
    prompt.push_back(static_cast<std::int32_t>((shared ? 0x80000000U : 0x40000000U) + writer));
  }
  return {};
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

Status Runner::drafts(const Words& words) {
  constexpr std::string_view kUsage = "drafts NAME NUMBER right=NUMBER";
  if (const Status ok = argument_count(words, 4, kUsage); !ok) return ok;
  const Result<SequenceId> id = known(words[1]);
  if (!id) return fail(id.error());
  if (!driver_->alive(*id)) return malformed(fmt::format("{} has ended already", words[1]));
  const Result<std::uint32_t> count = number(words[2]);
  if (!count) return fail(count.error());
  const auto values = script::settings(words, 3, {"right"});
  if (!values) return fail(values.error());
  std::uint32_t right = 0;
  if (const Status ok = script::read(*values, "right", right); !ok) return ok;
  if (right > *count) return malformed("no more draft tokens can be right than there are");
  driver_->drafts(*id, *count, right);
  return {};
}

Status Runner::withhold(const Words& words) {
  if (const Status ok = argument_count(words, 2, "withhold NUMBER"); !ok) return ok;
  const Result<std::uint32_t> blocks = number(words[1]);
  if (!blocks) return fail(blocks.error());
  driver_->withhold(*blocks);
  return judge();
}

Status Runner::plan(const Words& words) {
  const bool ahead = words.size() == 2 && words[1] == "ahead";
  if (words.size() > 1 && !ahead) return malformed("expected: plan or plan ahead");
  if (!ahead && under_way_ > 0) {
    return malformed("a plan is in flight: commit it first, or plan ahead");
  }
  if (ahead && under_way_ == 0) return malformed("no plan is in flight to be ahead of");
  if (under_way_ == 2) return malformed("two plans are in flight: commit one first");
  if (const Status ok = ahead ? driver_->plan_ahead() : driver_->plan(); !ok) return ok;
  if (!driver_->last_plan().rows.empty()) ++under_way_;
  planned_ = true;
  return judge();
}

Status Runner::commit(const Words& words) {
  if (const Status ok = argument_count(words, 1, "commit"); !ok) return ok;
  if (under_way_ == 0) return malformed("no plan is in flight");
  driver_->commit();
  --under_way_;
  committed_ = true;
  return judge();
}

Status Runner::step(const Words& words) {
  if (words.size() > 2) return malformed("expected: step [NUMBER]");
  const Result<std::uint32_t> times = words.size() == 2 ? number(words[1]) : 1;
  if (!times) return fail(times.error());
  for (std::uint32_t i = 0; i < *times; ++i) {
    if (const Status ok = plan({"plan"}); !ok) return ok;
    // An empty plan needs no commit.
    if (under_way_ == 0) {
      driver_->commit();
      committed_ = true;
    } else if (const Status ok = commit({"commit"}); !ok) {
      return ok;
    }
  }
  return {};
}

Status Runner::until(const Words& words) {
  constexpr std::string_view kUsage =
      "until idle limit=NUMBER or until finished|preempted|admitted NAME limit=NUMBER";
  const std::string what = words.size() > 1 ? words[1] : "";
  const bool idle = what == "idle";
  const std::size_t length = idle ? 3 : 4;
  if (words.size() != length ||
      (!idle && what != "finished" && what != "preempted" && what != "admitted")) {
    return malformed(fmt::format("expected: {}", kUsage));
  }
  const auto values = script::settings(words, length - 1, {"limit"});
  if (!values) return fail(values.error());
  std::uint32_t limit = 0;
  if (const Status ok = script::read(*values, "limit", limit); !ok) return ok;
  SequenceId id = 0;
  if (!idle) {
    const Result<SequenceId> found = known(words[2]);
    if (!found) return fail(found.error());
    id = *found;
  }
  const auto reached = [&] {
    if (idle) return driver_->scheduler().idle();
    const StepPlan& last = driver_->last_plan();
    if (what == "admitted") {
      return std::any_of(last.admitted.begin(), last.admitted.end(),
                         [&](const Admission& admission) { return admission.sequence == id; });
    }
    const auto& seen = what == "finished" ? driver_->finished() : last.preempted;
    return std::find(seen.begin(), seen.end(), id) != seen.end();
  };
  std::uint32_t steps = 0;
  // What the step before brought about is not waited for: only idleness may hold at once.
  bool done = idle && reached();
  while (!done) {
    if (steps++ == limit) {
      return failed(
          fmt::format("not {} after {} steps", idle ? "idle" : what + " " + words[2], limit));
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
  if (what == "free") return expect_count(words, 3, scheduler.pool().free());
  if (what == "cached-blocks") return expect_count(words, 3, scheduler.pool().cached());
  if (what == "running") return expect_count(words, 3, scheduler.running());
  if (what == "waiting") return expect_count(words, 3, scheduler.waiting());
  if (what == "preemptions") return expect_count(words, 3, scheduler.preemptions());
  if (what == "recomputed") return expect_count(words, 3, scheduler.recomputed_tokens());
  if (what == "released") return expect_blocks(words, 2, take_released());
  if (what == "idle") return expect_idle(words);
  if (what == "generated") {
    if (const Status ok = argument_count(words, 4, "expect generated NAME NUMBER"); !ok) return ok;
    const Result<SequenceId> id = known(words[2]);
    if (!id) return fail(id.error());
    return expect_count(words, 4, driver_->generated(*id));
  }
  return expect_of_plan(words);
}

Status Runner::expect_of_plan(const Words& words) {
  const std::string& what = words[1];
  const StepPlan& last = driver_->last_plan();
  if (!planned_) return malformed(fmt::format("'expect {}' needs a plan before", what));
  if (what == "rows") return expect_rows(words);
  if (what == "tokens") return expect_count(words, 3, last.tokens);
  if (what == "class") return expect_class(words);
  if (what == "cached") return expect_cached(words);
  if (what == "preempted") return expect_names(words, last.preempted);
  if (what == "admitted" || what == "resumed") {
    std::vector<SequenceId> seen;
    for (const Admission& admission : last.admitted) {
      if (what == "admitted" || admission.resumed) seen.push_back(admission.sequence);
    }
    return expect_names(words, seen);
  }
  if (what == "finished") {
    if (!committed_) return malformed("'expect finished' needs a commit before");
    return expect_names(words, driver_->finished());
  }
  if (what == "slot" || what == "blocks") {
    if (words.size() < 3) return malformed(fmt::format("expected: expect {} NAME ...", what));
    const Result<SequenceId> id = known(words[2]);
    if (!id) return fail(id.error());
    const Row* row = driver_->row_of(*id);
    if (row == nullptr) return failed(fmt::format("{} has no row in the last plan", words[2]));
    if (what == "slot") return expect_count(words, 4, row->slot);
    if (under_way_ == 0) return malformed("a block table can be seen between plan and commit only");
    return expect_blocks(words, 3, row->blocks);
  }
  return malformed(fmt::format("'expect {}' is no statement", what));
}

Status Runner::expect_idle(const Words& words) const {
  if (const Status ok = argument_count(words, 2, "expect idle"); !ok) return ok;
  const Scheduler& scheduler = driver_->scheduler();
  if (scheduler.idle()) return {};
  return failed(fmt::format("expected idle, got {} running and {} waiting", scheduler.running(),
                            scheduler.waiting()));
}

Status Runner::expect_class(const Words& words) const {
  const auto& rows = driver_->last_plan().rows;
  if (rows.empty()) return failed("the last plan is empty");
  const std::uint32_t first = sequences_[rows.front().sequence].batch_class;
  for (const Row& row : rows) {
    if (sequences_[row.sequence].batch_class != first) {
      return failed(
          fmt::format("{} and {} share a step", name(rows.front().sequence), name(row.sequence)));
    }
  }
  return expect_count(words, 3, first);
}

Status Runner::expect_cached(const Words& words) const {
  if (const Status ok = argument_count(words, 4, "expect cached NAME NUMBER"); !ok) return ok;
  const Result<SequenceId> id = known(words[2]);
  if (!id) return fail(id.error());
  for (const Admission& admission : driver_->last_plan().admitted) {
    if (admission.sequence == *id) return expect_count(words, 4, admission.cached_tokens);
  }
  return failed(fmt::format("{} was not admitted by the last plan", words[2]));
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

// The number is the last of `length` words.
Status Runner::expect_count(const Words& words, std::size_t length, std::uint64_t seen) const {
  if (words.size() < 3) return malformed(fmt::format("expected: expect {} NUMBER", words[1]));
  if (words.size() < length) {
    return malformed(fmt::format("expected: expect {} NAME NUMBER", words[1]));
  }
  if (words.size() > length) return malformed("too many words");
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
                             std::span<const kv::BlockId> seen) const {
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
      "expect rows [NAME:FIRST+TOKENS[~DRAFTS][*]]... [| ...] or none";
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
    std::string_view text = word;
    if (text.back() == '*') text.remove_suffix(1);
    const std::size_t tilde = std::min(text.find('~', plus), text.size());
    if (const auto first = number(text.substr(colon + 1, plus - colon - 1)); !first) {
      return fail(first.error());
    }
    if (const auto tokens = number(text.substr(plus + 1, tilde - plus - 1)); !tokens) {
      return fail(tokens.error());
    }
    if (tilde == text.size()) continue;
    if (const auto drafts = number(text.substr(tilde + 1)); !drafts) return fail(drafts.error());
  }
  return same("rows", fmt::format("{}", fmt::join(expected, " ")), render(driver_->last_plan()));
}

// The blocks released since the last `expect released`.
std::vector<kv::BlockId> Runner::take_released() { return std::exchange(released_, {}); }

// Lets the checker see what has happened since it last looked.
Status Runner::judge() {
  const observe::EventLog& log = driver_->log();
  if (read_ < log.oldest()) return failed("more happened at once than the log holds");
  for (; read_ < log.written(); ++read_) {
    const observe::Event& event = log.at(read_);
    checker_->see(event);
    if (event.kind == observe::EventKind::kReleaseBlock) released_.push_back(event.a);
  }
  if (!checker_->violations().empty()) {
    return failed(fmt::format("a law is broken: {}", checker_->violations().front()));
  }
  return {};
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
    parts.push_back(fmt::format("{}:{}+{}{}{}", name(row.sequence), row.first_position, row.tokens,
                                row.drafts > 0 ? fmt::format("~{}", row.drafts) : "",
                                row.sampled ? "*" : ""));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace

std::optional<std::string> run_history(std::string_view text, std::string_view name) {
  const auto fault = [&](std::size_t line, const Error& error) {
    return fmt::format("{}:{}: {}{}", name, line,
                       error.kind == ErrorKind::kInvalid ? "malformed: " : "", error.message);
  };
  std::size_t line = 1;
  const auto statements = script::parse(text, line);
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
