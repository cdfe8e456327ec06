#include <fmt/core.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <xxhash.h>

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "run_fixture.h"

namespace dovetail::pipeline {
namespace {

enum class Kind : std::uint8_t { kExpression, kGenerated, kJudged };

// A column of a random graph; its needs are columns before it.
struct Node {
  Kind kind = Kind::kExpression;
  std::vector<std::size_t> needs;
  int skip_every = 0;  // skipped where the record's number is a multiple; 0: never
  bool propagates = true;
  bool drops = true;  // where it fails
};

using Graph = std::vector<Node>;

std::uint64_t hash_of_text(const std::string& text) {
  return XXH3_64bits(text.data(), text.size());
}

// What the models say: one prompt in 16 is refused for good, else the answer is its own.
bool is_refused(const std::string& prompt) { return hash_of_text(prompt) % 16 == 3; }
std::string written(const std::string& prompt) {
  return fmt::format("{:016x}", hash_of_text(prompt));
}

std::string name_of(std::size_t node) { return fmt::format("c{}", node); }

std::string yaml_of(const Graph& graph, int records, const std::string& top) {
  std::string yaml = fmt::format(R"(
records: {}
{}limits: {{errors: {{share: 1, window: 1000000}}}}
models:
  gen: {{endpoint: "http://localhost:1/v1", model: g}}
  judge: {{endpoint: "http://localhost:1/v1", model: j}}
columns:
  - {{name: i, type: sampler, sampler: integer, params: {{low: 0, high: 1}}}}
)",
                                 records, top);
  for (std::size_t n = 0; n < graph.size(); ++n) {
    const Node& node = graph[n];
    std::string text = fmt::format("{}({{{{ i }}}}", name_of(n));
    for (const std::size_t need : node.needs) {
      text += fmt::format(",{{{{ 'nil' if {0} is none else {0} }}}}", name_of(need));
    }
    text += ")";
    yaml += fmt::format("  - {{name: {}, ", name_of(n));
    if (node.kind == Kind::kExpression) {
      yaml += fmt::format("type: expression, value: \"{}\"", text);
    } else {
      yaml += fmt::format("type: llm-text, model: {}, prompt: \"{}\"",
                          node.kind == Kind::kGenerated ? "gen" : "judge", text);
    }
    if (node.skip_every > 0) {
      yaml += fmt::format(", skip_if: \"{{{{ i % {} == 0 }}}}\"", node.skip_every);
    }
    if (!node.propagates) yaml += ", propagate_skip: false";
    if (node.kind != Kind::kExpression && !node.drops) yaml += ", on_failure: keep";
    yaml += "}\n";
  }
  return yaml;
}

struct Expected {
  std::optional<std::string> line;  // absent: it is dropped
  std::set<std::string> reasons;    // for one of these
};

// A record column by column, with nothing of a scheduler.
Expected evaluate_serially(const Graph& graph, int record) {
  Expected expected;
  std::vector<std::optional<std::string>> values;
  std::vector<bool> unknown;  // what a dropped record would have had
  for (std::size_t n = 0; n < graph.size(); ++n) {
    const Node& node = graph[n];
    values.emplace_back();
    bool lacks = false, beyond = false;
    std::string text = fmt::format("{}({}", name_of(n), record);
    for (const std::size_t need : node.needs) {
      lacks = lacks || !values[need];
      beyond = beyond || unknown[need];
      text += fmt::format(",{}", values[need].value_or("nil"));
    }
    text += ")";
    unknown.push_back(beyond);
    if (beyond) continue;
    if ((node.propagates && lacks) || (node.skip_every > 0 && record % node.skip_every == 0)) {
      continue;
    }
    if (node.kind == Kind::kExpression) {
      values[n] = text;
    } else if (!is_refused(text)) {
      values[n] = written(text);
    } else if (node.drops) {
      unknown[n] = true;
      expected.reasons.insert(fmt::format("- {}: refused", name_of(n)));
    }
  }
  if (!expected.reasons.empty()) return expected;
  Json row = {{"i", record}};
  for (std::size_t n = 0; n < graph.size(); ++n) {
    row[name_of(n)] = values[n] ? Json(*values[n]) : Json(nullptr);
  }
  expected.line = row.dump();
  return expected;
}

rc::Gen<Graph> graphs() {
  return rc::gen::exec([] {
    Graph graph(*rc::gen::inRange<std::size_t>(1, 9));
    for (std::size_t n = 0; n < graph.size(); ++n) {
      Node& node = graph[n];
      node.kind = *rc::gen::element(Kind::kExpression, Kind::kGenerated, Kind::kJudged);
      const auto count = *rc::gen::inRange<std::size_t>(0, std::min<std::size_t>(n, 3) + 1);
      const auto needs = *rc::gen::container<std::vector<std::size_t>>(
          count, rc::gen::inRange<std::size_t>(0, std::max<std::size_t>(n, 1)));
      const std::set<std::size_t> different(needs.begin(), needs.end());
      node.needs.assign(different.begin(), different.end());
      node.skip_every = *rc::gen::weightedElement<int>({{3, 0}, {1, 2}, {1, 3}});
      node.propagates = *rc::gen::weightedElement<bool>({{3, true}, {1, false}});
      node.drops = *rc::gen::arbitrary<bool>();
    }
    return graph;
  });
}

void showValue(const Graph& graph, std::ostream& out) { out << yaml_of(graph, 1, ""); }

// Whatever the window, the order, the slots and the time that answers take, and although models are
// away now and then: the records are those that one gets by making cell after cell.
RC_GTEST_PROP(GraphProperty, ValuesDependOnTheGraphAlone, ()) {
  const Graph graph = *graphs();
  const int records = *rc::gen::inRange(1, 40);
  std::vector<Expected> expected;
  for (int record = 0; record < records; ++record) {
    expected.push_back(evaluate_serially(graph, record));
  }
  for (int schedule = 0; schedule < 2; ++schedule) {
    std::string top = fmt::format("window: {}\n", *rc::gen::inRange(1, 60));
    if (*rc::gen::arbitrary<bool>()) top += "order: fair\n";
    const int slowest_us = *rc::gen::element(0, 50, 500);
    const bool is_away_once = *rc::gen::arbitrary<bool>();
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    std::mutex mutex;
    std::set<std::string> asked;
    const ScriptedModel::Script script = [&](const ModelRequest& request) -> Result<ModelAnswer> {
      const std::string prompt = prompt_of(request);
      const std::uint64_t draw = hash_of_text(fmt::format("{} {}", seed, prompt));
      if (slowest_us > 0) {
        std::this_thread::sleep_for(
            std::chrono::microseconds(draw % static_cast<std::uint64_t>(slowest_us)));
      }
      if (is_away_once && draw % 8 == 5) {
        const std::lock_guard lock(mutex);
        if (asked.insert(prompt).second) return fail(ErrorKind::kUnavailable, "away");
      }
      if (is_refused(prompt)) return fail(ErrorKind::kInvalid, "refused");
      return answer(written(prompt));
    };
    const PipelineSpec spec = spec_of(yaml_of(graph, records, top));
    const RunFolder folder;
    ScriptedModel gen(*rc::gen::inRange<std::uint32_t>(1, 9), script);
    ScriptedModel judge(*rc::gen::inRange<std::uint32_t>(1, 9), script);
    const Session session = run_session(spec, folder.path(), {gen.client(), judge.client()});
    RC_ASSERT(session.progress.has_value());
    RC_ASSERT(session.violations == std::vector<std::string>());
    RC_ASSERT(session.lines.size() == expected.size());
    for (std::size_t record = 0; record < expected.size(); ++record) {
      if (expected[record].line) {
        RC_ASSERT(session.lines[record] == *expected[record].line);
      } else {
        RC_ASSERT(expected[record].reasons.contains(session.lines[record]));
      }
    }
  }
}

}  // namespace
}  // namespace dovetail::pipeline
