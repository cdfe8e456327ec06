#include "schedule/history_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace dovetail::schedule::script {
namespace {

template <class T>
Result<T> parsed(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) {
    return malformed(fmt::format("'{}' is no number", text));
  }
  return value;
}

template <class T>
Status read_parsed(const Settings& values, std::string_view key, T& target) {
  const auto found = values.find(key);
  if (found == values.end()) return {};
  const Result<T> value = parsed<T>(found->second);
  if (!value) return fail(value.error());
  target = *value;
  return {};
}

Result<StepCost> step_cost(std::string_view text) {
  std::vector<double> parts;
  for (;;) {
    const std::size_t colon = text.find(':');
    const Result<double> part = parsed<double>(text.substr(0, colon));
    if (!part) return fail(part.error());
    if (!(*part >= 0) || !std::isfinite(*part)) return malformed("a cost must be at least 0");
    parts.push_back(*part);
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  if (parts.size() != 4 && parts.size() != 5) {
    return malformed("expected cost=STEP:PREFILL:DECODE:CONTEXT[:FREE]");
  }
  StepCost cost{parts[0], parts[1], parts[2], parts[3], 0};
  if (parts.size() == 5) {
    if (parts[4] > 1e9) return malformed("that many free tokens are not to be had");
    cost.free_tokens = static_cast<std::uint32_t>(parts[4]);
  }
  if (!cost.known()) return malformed("a prefill token must cost something");
  return cost;
}

Result<Policy> policy(std::string_view text) {
  if (text == "fcfs") return Policy::kFcfs;
  if (text == "priority") return Policy::kPriority;
  if (text == "fair") return Policy::kFair;
  return malformed(fmt::format("policy={}: expected fcfs, priority or fair", text));
}

// What the scheduler requires of its callers.
Status check(const SchedulerOptions& options) {
  for (const auto& [name, value] : {std::pair{"slots", options.max_num_seqs},
                                    {"budget", options.max_num_batched_tokens},
                                    {"block", options.block_size},
                                    {"blocks", options.kv_blocks},
                                    {"context", options.max_context},
                                    {"floor", options.min_prefill_tokens},
                                    {"interval", options.prefill_interval}}) {
    if (value == 0) return malformed(fmt::format("options need {}=NUMBER, at least 1", name));
  }
  if (options.max_num_batched_tokens < options.max_num_seqs) {
    return malformed("the budget must be at least the slots");
  }
  constexpr std::uint32_t kMaxValue = 1U << 20;
  if (options.max_num_seqs > kMaxValue || options.kv_blocks > kMaxValue ||
      options.block_size > kMaxValue) {
    return malformed(fmt::format("slots, blocks and block must be at most {}", kMaxValue));
  }
  if (kv::blocks_for(options.max_context, options.block_size) > options.kv_blocks) {
    return malformed("the context must fit the blocks");
  }
  return {};
}

}  // namespace

tl::unexpected<Error> malformed(std::string message) {
  return fail(Error{ErrorKind::kInvalid, std::move(message)});
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
    } else if (!quoted && c == '#') {
      comment = true;
    } else if (!quoted && c == ';') {
      end_statement();
    } else if (!quoted && (c == ' ' || c == '\t' || c == '\r')) {
      end_word();
    } else {
      word += c;
    }
  }
  if (quoted) return malformed("a quoted text does not end in its line");
  end_statement();
  return statements;
}

Result<std::uint32_t> number(std::string_view text) { return parsed<std::uint32_t>(text); }

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && letter(text.front()) && text != "none" &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return letter(c) || digit(c) || c == '_'; });
}

Result<Settings> settings(const Words& words, std::size_t begin, const Words& keys) {
  Settings values;
  for (std::size_t i = begin; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    if (equals == std::string::npos || std::find(keys.begin(), keys.end(), key) == keys.end()) {
      return malformed(fmt::format("'{}': expected {}=...", words[i], fmt::join(keys, "=, ")));
    }
    if (!values.emplace(key, words[i].substr(equals + 1)).second) {
      return malformed(fmt::format("'{}' twice", key));
    }
  }
  return values;
}

Status read(const Settings& values, std::string_view key, std::uint32_t& target) {
  return read_parsed(values, key, target);
}
Status read(const Settings& values, std::string_view key, std::int32_t& target) {
  return read_parsed(values, key, target);
}
Status read(const Settings& values, std::string_view key, bool& target) {
  std::uint32_t value = target ? 1 : 0;
  if (const Status ok = read_parsed(values, key, value); !ok) return ok;
  if (value > 1) return malformed(fmt::format("{}={}: expected 0 or 1", key, value));
  target = value == 1;
  return {};
}

Result<Options> options(const Words& words) {
  const auto values = settings(words, 1,
                               {"slots", "budget", "block", "blocks", "context", "threshold",
                                "queue", "mixed", "prefix", "drafts", "align", "floor", "interval",
                                "watermark", "policy", "ageing", "target_us", "slowdown", "cost"});
  if (!values) return fail(values.error());
  Options result;
  SchedulerOptions& options = result.scheduler;
  options.max_num_seqs = options.max_num_batched_tokens = options.block_size = 0;
  const std::pair<std::string_view, std::uint32_t*> numbers[] = {
      {"slots", &options.max_num_seqs},        {"budget", &options.max_num_batched_tokens},
      {"block", &options.block_size},          {"blocks", &options.kv_blocks},
      {"context", &options.max_context},       {"threshold", &options.long_prefill_token_threshold},
      {"queue", &options.max_waiting},         {"drafts", &options.speculative_tokens},
      {"align", &options.prefill_alignment},   {"floor", &options.min_prefill_tokens},
      {"interval", &options.prefill_interval}, {"watermark", &options.watermark},
      {"ageing", &options.ageing_steps},
  };
  for (const auto& [key, target] : numbers) {
    if (const Status ok = read(*values, key, *target); !ok) return fail(ok.error());
  }
  for (const auto& [key, target] :
       {std::pair{"mixed", &options.mixed}, {"prefix", &options.prefix_cache}}) {
    if (const Status ok = read(*values, key, *target); !ok) return fail(ok.error());
  }
  std::uint32_t target_us = 0, slowdown = 0;
  if (const Status ok = read(*values, "target_us", target_us); !ok) return fail(ok.error());
  if (const Status ok = read(*values, "slowdown", slowdown); !ok) return fail(ok.error());
  options.target_step_us = target_us;
  if (values->contains("slowdown")) options.mixed_slowdown = slowdown / 100.0;
  if (const auto text = values->find("policy"); text != values->end()) {
    const Result<Policy> value = policy(text->second);
    if (!value) return fail(value.error());
    options.policy = *value;
  }
  if (const auto text = values->find("cost"); text != values->end()) {
    const Result<StepCost> value = step_cost(text->second);
    if (!value) return fail(value.error());
    result.cost = *value;
  }
  if (const Status ok = check(options); !ok) return fail(ok.error());
  return result;
}

Result<Arrival> arrival(const Words& words) {
  const auto values = settings(words, 2,
                               {"prompt", "max", "priority", "tenant", "class", "family", "shared",
                                "continues", "computes_all"});
  if (!values) return fail(values.error());
  Arrival result;
  SequenceSpec& spec = result.spec;
  const std::pair<std::string_view, std::uint32_t*> numbers[] = {
      {"prompt", &spec.prompt_tokens}, {"max", &spec.max_new_tokens}, {"tenant", &spec.tenant},
      {"class", &spec.batch_class},    {"family", &result.family},    {"shared", &result.shared},
  };
  for (const auto& [key, target] : numbers) {
    if (const Status ok = read(*values, key, *target); !ok) return fail(ok.error());
  }
  if (const Status ok = read(*values, "priority", spec.priority); !ok) return fail(ok.error());
  if (const Status ok = read(*values, "computes_all", spec.computes_all); !ok)
    return fail(ok.error());
  if (spec.prompt_tokens == 0) return malformed("add needs prompt=NUMBER, at least 1");
  if (values->contains("max") && spec.max_new_tokens == 0) {
    return malformed("max must be at least 1");
  }
  if (spec.priority < -kMaxPriority || spec.priority > kMaxPriority) {
    return malformed(fmt::format("priority must be in [-{0}, {0}]", kMaxPriority));
  }
  if (spec.prompt_tokens > 1U << 24) return malformed("prompt must be at most 16777216");
  if (result.shared > spec.prompt_tokens) {
    return malformed("no more tokens can be shared than the prompt has");
  }
  if (const auto text = values->find("continues"); text != values->end()) {
    if (result.shared > 0) return malformed("either shared or continues");
    result.continues = text->second;
  }
  return result;
}

}  // namespace dovetail::schedule::script
