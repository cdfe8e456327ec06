#include "pipeline/sample/sampler_set.h"

#include <algorithm>
#include <cassert>
#include <unordered_map>
#include <unordered_set>

#include "load/quote.h"
#include "pipeline/sample/fields.h"
#include "pipeline/sample/mistakes.h"
#include "pipeline/sample/sampler_convert.h"

namespace dovetail::pipeline {
namespace {

using nlohmann::ordered_json;
using Graph = std::vector<std::vector<std::size_t>>;

// The vertices in an order in which each comes after all that it points to; those on a cycle, and
// those that point to one, are left out.
std::vector<std::size_t> sorted_by_needs(const Graph& uses) {
  Graph users(uses.size());
  std::vector<std::size_t> open(uses.size());
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    open[i] = uses[i].size();
    for (const std::size_t used : uses[i]) users[used].push_back(i);
    if (open[i] == 0) order.push_back(i);
  }
  for (std::size_t at = 0; at < order.size(); ++at) {
    for (const std::size_t user : users[order[at]]) {
      if (--open[user] == 0) order.push_back(user);
    }
  }
  return order;
}

// Tarjan's strongly connected components without recursion; a component comes after all that its
// vertices point to.
std::vector<std::vector<std::size_t>> components_of(const Graph& graph) {
  constexpr std::size_t kNone = SIZE_MAX;
  struct Frame {
    std::size_t vertex;
    std::size_t next;
  };
  std::vector<std::size_t> number(graph.size(), kNone);
  std::vector<std::size_t> low(graph.size());
  std::vector<bool> stacked(graph.size());
  std::vector<std::size_t> stack;
  std::vector<std::vector<std::size_t>> components;
  std::size_t count = 0;
  for (std::size_t root = 0; root < graph.size(); ++root) {
    if (number[root] != kNone) continue;
    std::vector<Frame> frames = {{root, 0}};
    while (!frames.empty()) {
      const std::size_t v = frames.back().vertex;
      if (frames.back().next == 0) {
        number[v] = low[v] = count++;
        stack.push_back(v);
        stacked[v] = true;
      }
      if (frames.back().next < graph[v].size()) {
        const std::size_t w = graph[v][frames.back().next++];
        if (number[w] == kNone) {
          frames.push_back({w, 0});
        } else if (stacked[w]) {
          low[v] = std::min(low[v], number[w]);
        }
        continue;
      }
      if (low[v] == number[v]) {
        auto& component = components.emplace_back();
        std::size_t w = kNone;
        do {
          w = stack.back();
          stack.pop_back();
          stacked[w] = false;
          component.push_back(w);
        } while (w != v);
      }
      frames.pop_back();
      if (!frames.empty()) {
        const std::size_t above = frames.back().vertex;
        low[above] = std::min(low[above], low[v]);
      }
    }
  }
  return components;
}

std::unordered_map<std::string, std::size_t> index_of(const std::vector<SamplerColumn>& columns) {
  std::unordered_map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < columns.size(); ++i) index.emplace(columns[i].name, i);
  return index;
}

// All parameters that a column may be drawn with.
std::vector<const SamplerSpec*> specs_of(const SamplerColumn& column) {
  std::vector<const SamplerSpec*> specs = {&column.otherwise};
  for (const auto& [condition, spec] : column.conditional) specs.push_back(&spec);
  return specs;
}

}  // namespace

Result<SamplerSet> SamplerSet::make(std::vector<SamplerColumn> columns,
                                    std::vector<Constraint> constraints,
                                    const std::vector<std::string>& others,
                                    const SamplerSetOptions& options) {
  SamplerSet set;
  set.columns_ = std::move(columns);
  set.constraints_ = std::move(constraints);
  set.most_attempts_ = std::max<std::uint32_t>(1, options.most_attempts);
  if (Status status = set.check_names(others); !status) return fail(status.error());
  const auto index = index_of(set.columns_);
  for (const SamplerColumn& column : set.columns_) {
    set.keys_.push_back(stream_key(options.run_seed, column.name));
    auto& uses = set.uses_.emplace_back();
    for (const std::string& name : column.needs()) {
      if (const auto found = index.find(name); found != index.end()) uses.push_back(found->second);
    }
  }
  if (Status status = set.check_cycles(); !status) return fail(status.error());
  if (Status status = set.check_lists(); !status) return fail(status.error());
  set.find_groups();
  return set;
}

Status SamplerSet::check_names(const std::vector<std::string>& others) const {
  std::vector<std::string> known = others;
  std::unordered_set<std::string> seen(others.begin(), others.end());
  for (const SamplerColumn& column : columns_) {
    if (!seen.insert(column.name).second) {
      return fail(ErrorKind::kInvalid, "column {} is there twice", load::quote(column.name));
    }
    known.push_back(column.name);
  }
  for (const SamplerColumn& column : columns_) {
    for (const std::string& name : column.needs()) {
      if (seen.contains(name)) continue;
      return fail(ErrorKind::kInvalid, "column {} needs {}, an unknown column; {}",
                  load::quote(column.name), load::quote(name), valid_names(name, known));
    }
  }
  const auto index = index_of(columns_);
  for (const Constraint& constraint : constraints_) {
    bool sampled = false;
    for (const std::string& name : constraint.columns()) {
      sampled |= index.contains(name);
      if (seen.contains(name)) continue;
      return fail(ErrorKind::kInvalid, "constraint '{}': unknown column {}; {}", constraint.text(),
                  load::quote(name), valid_names(name, known));
    }
    if (!sampled) {
      return fail(ErrorKind::kInvalid,
                  "constraint '{}': no sampler column, so nothing can be drawn "
                  "again; valid: at least one",
                  constraint.text());
    }
  }
  return {};
}

Status SamplerSet::check_cycles() const {
  const auto order = sorted_by_needs(uses_);
  if (order.size() == columns_.size()) return {};
  std::vector<bool> fine(columns_.size());
  for (const std::size_t i : order) fine[i] = true;
  // From a column that could not be placed, each step to another such one ends in a cycle.
  std::size_t at =
      static_cast<std::size_t>(std::find(fine.begin(), fine.end(), false) - fine.begin());
  std::vector<std::size_t> path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    at = *std::find_if(uses_[at].begin(), uses_[at].end(),
                       [&](std::size_t used) { return !fine[used]; });
  }
  std::string text;
  for (auto i = std::find(path.begin(), path.end(), at); i != path.end(); ++i) {
    text += columns_[*i].name + " -> ";
  }
  return fail(ErrorKind::kInvalid, "sampler columns need each other: {}{}", text,
              columns_[at].name);
}

Status SamplerSet::check_lists() const {
  const auto index = index_of(columns_);
  for (const SamplerColumn& column : columns_) {
    for (const SamplerSpec* spec : specs_of(column)) {
      const auto* lists = std::get_if<SubcategorySpec>(&spec->kind);
      const auto parent = lists == nullptr ? index.end() : index.find(lists->parent);
      if (parent == index.end()) continue;
      for (const SamplerSpec* values : specs_of(columns_[parent->second])) {
        const auto* list = std::get_if<CategorySpec>(&values->kind);
        if (list == nullptr) continue;
        for (const ordered_json& value : list->values) {
          if (lists->lists.contains(category_key(value))) continue;
          return fail(ErrorKind::kInvalid,
                      "column {}: no list for the value {} of its category {}; valid: a list for "
                      "each of its values",
                      load::quote(column.name), shown(value), load::quote(lists->parent));
        }
      }
    }
  }
  return {};
}

void SamplerSet::find_groups() {
  const auto index = index_of(columns_);
  Graph graph = uses_;
  for (const Constraint& constraint : constraints_) {
    const auto names = constraint.columns();
    if (names.size() < 2) continue;
    const auto left = index.find(names[0]);
    const auto right = index.find(names[1]);
    if (left == index.end() || right == index.end()) continue;
    graph[left->second].push_back(right->second);
    graph[right->second].push_back(left->second);
  }
  std::vector<std::size_t> rank(columns_.size());
  const auto order = sorted_by_needs(uses_);
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = i;

  group_of_.resize(columns_.size());
  for (auto& component : components_of(graph)) {
    std::sort(component.begin(), component.end(),
              [&](std::size_t a, std::size_t b) { return rank[a] < rank[b]; });
    for (const std::size_t column : component) group_of_[column] = groups_.size();
    groups_.push_back({std::move(component), {}, {}});
  }
  const auto need = [&](Group& group, std::size_t number, const std::string& name) {
    const auto found = index.find(name);
    if (found != index.end() && group_of_[found->second] == number) return;
    if (std::find(group.needs.begin(), group.needs.end(), name) == group.needs.end()) {
      group.needs.push_back(name);
    }
  };
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const std::size_t column : groups_[g].columns) {
      for (const std::string& name : columns_[column].needs()) need(groups_[g], g, name);
    }
  }
  for (std::size_t c = 0; c < constraints_.size(); ++c) {
    const auto names = constraints_[c].columns();
    const auto sampled = std::find_if(names.begin(), names.end(),
                                      [&](const auto& name) { return index.contains(name); });
    assert(sampled != names.end());
    const std::size_t g = group_of_[index.at(*sampled)];
    groups_[g].constraints.push_back(c);
    for (const std::string& name : names) need(groups_[g], g, name);
  }
}

Status SamplerSet::draw_group(std::size_t number, std::uint64_t record_number,
                              ordered_json& record) const {
  const Group& group = groups_[number];
  std::vector<std::uint32_t> failures(group.constraints.size());
  const auto give_up = [&](Error error) -> Status {
    for (const std::size_t column : group.columns) record.erase(columns_[column].name);
    return fail(std::move(error));
  };
  for (std::uint32_t attempt = 0; attempt < most_attempts_; ++attempt) {
    for (const std::size_t column : group.columns) {
      Stream stream(keys_[column], record_number, attempt);
      auto value = draw(columns_[column], record, stream);
      if (!value) return give_up(value.error());
      record[columns_[column].name] = *std::move(value);
    }
    bool all_hold = true;
    for (std::size_t c = 0; c < group.constraints.size(); ++c) {
      const auto holds = constraints_[group.constraints[c]].holds(record);
      if (!holds) return give_up(holds.error());
      if (*holds) continue;
      ++failures[c];
      all_hold = false;
    }
    if (all_hold) return {};
  }
  std::string counts;
  for (std::size_t c = 0; c < failures.size(); ++c) {
    if (failures[c] == 0) continue;
    if (!counts.empty()) counts += ", ";
    counts +=
        fmt::format("'{}' failed {} times", constraints_[group.constraints[c]].text(), failures[c]);
  }
  return give_up(
      {ErrorKind::kExhausted,
       fmt::format("constraints were not met in {} attempts: {}; valid: constraints that "
                   "a fair share of the draws meets",
                   most_attempts_, counts)});
}

Status SamplerSet::draw_all(std::uint64_t record_number, ordered_json& record) const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (Status status = draw_group(g, record_number, record); !status) return status;
  }
  return {};
}

}  // namespace dovetail::pipeline
