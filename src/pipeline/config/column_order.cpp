#include "pipeline/config/column_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/near_match.h"

namespace dovetail::pipeline {
namespace {

using Graph = std::vector<std::vector<std::size_t>>;

// Follows unmet needs until a column comes twice.
Error cycle_of(const Document& document, const std::vector<ColumnDraft>& drafts, const Graph& needs,
               const std::vector<std::size_t>& missing) {
  std::size_t at = 0;
  while (missing[at] == 0) ++at;
  std::vector<std::size_t> path;
  while (std::find(path.begin(), path.end(), at) == path.end()) {
    path.push_back(at);
    at = *std::find_if(needs[at].begin(), needs[at].end(),
                       [&](std::size_t need) { return missing[need] > 0; });
  }
  std::string text;
  for (auto step = std::find(path.begin(), path.end(), at); step != path.end(); ++step) {
    text += drafts[*step].spec.name + " needs ";
  }
  return {ErrorKind::kInvalid,
          fmt::format("{}columns need each other in a circle: {}{}",
                      document.where(drafts[at].pointer), text, drafts[at].spec.name)};
}

}  // namespace

bool check_reads(const Document& document, const std::vector<ColumnRead>& reads,
                 const std::vector<ColumnDraft>& drafts, Mistakes& mistakes) {
  bool all = true;
  for (const ColumnRead& read : reads) {
    if (std::any_of(drafts.begin(), drafts.end(),
                    [&](const ColumnDraft& draft) { return draft.spec.name == read.name; })) {
      continue;
    }
    std::vector<std::string> names;
    for (const ColumnDraft& draft : drafts) names.push_back(draft.spec.name);
    const std::vector<std::string> near = near_matches(read.name, names);
    all = false;
    mistakes.add(Error{
        ErrorKind::kInvalid,
        fmt::format("{}there is no column '{}'{}", document.where(read.pointer), read.name,
                    near.empty() ? fmt::format("; there are {}", fmt::join(names, ", "))
                                 : fmt::format(", did you mean {}?", fmt::join(near, " or ")))});
  }
  return all;
}

// Kahn's algorithm on the smallest index.
Result<std::vector<std::size_t>> order_of(const Document& document,
                                          const std::vector<ColumnDraft>& drafts) {
  std::map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < drafts.size(); ++i) by_name[drafts[i].spec.name] = i;
  Graph needs(drafts.size()), needed_by(drafts.size());
  std::vector<std::size_t> missing(drafts.size());
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    std::set<std::size_t> distinct;
    for (const ColumnRead& read : drafts[i].reads) distinct.insert(by_name.at(read.name));
    needs[i].assign(distinct.begin(), distinct.end());
    missing[i] = needs[i].size();
    for (const std::size_t need : needs[i]) needed_by[need].push_back(i);
  }
  std::set<std::size_t> free;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    if (missing[i] == 0) free.insert(i);
  }
  std::vector<std::size_t> order;
  while (!free.empty()) {
    const std::size_t next = *free.begin();
    free.erase(free.begin());
    order.push_back(next);
    for (const std::size_t other : needed_by[next]) {
      if (--missing[other] == 0) free.insert(other);
    }
  }
  if (order.size() < drafts.size()) return fail(cycle_of(document, drafts, needs, missing));
  return order;
}

}  // namespace dovetail::pipeline
