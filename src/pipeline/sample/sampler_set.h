#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/sample/constraint.h"
#include "pipeline/sample/sampler.h"

namespace dovetail::pipeline {

struct SamplerSetOptions {
  std::uint64_t run_seed = 0;
  // How often the columns of a constraint are drawn for one record before it is given up.
  std::uint32_t most_attempts = 1000;
};

// All sampler columns of a pipeline together with their constraints. Columns that a constraint ties
// together (and those that lie between them) form a group: they are drawn together until all of the
// group's constraints hold, so that the result is the joint distribution under that condition.
// Every other column is a group of its own. Immutable; may be used from several threads at once.
class SamplerSet {
 public:
  struct Group {
    std::vector<std::size_t> columns;      // into columns(), in the order of drawing
    std::vector<std::size_t> constraints;  // into constraints()
    std::vector<std::string> needs;        // columns outside of the group that it reads
  };

  // `others` are the columns of the record that are no samplers. Errors: a name that comes twice or
  // is unknown, columns that need each other, a constraint without a sampler column, a subcategory
  // without a list for a value that its parent can have.
  static Result<SamplerSet> make(std::vector<SamplerColumn> columns,
                                 std::vector<Constraint> constraints,
                                 const std::vector<std::string>& others,
                                 const SamplerSetOptions& options = {});

  const std::vector<SamplerColumn>& columns() const { return columns_; }
  const std::vector<Constraint>& constraints() const { return constraints_; }
  // Each group reads only columns of earlier groups, and others.
  const std::vector<Group>& groups() const { return groups_; }
  // The group that the column is in.
  std::size_t group_of(std::size_t column) const { return group_of_[column]; }

  // Sets the group's columns in `record`, an object that holds all that the group needs. A pure
  // function of the run's seed, the record's number and what it needs. On an error (a constraint
  // that was not met in most_attempts, with its count of failures; a value that a column cannot
  // work with) the record lacks the group's columns. Messages do not name the record.
  Status draw_group(std::size_t group, std::uint64_t record_number,
                    nlohmann::ordered_json& record) const;
  // All groups, in order.
  Status draw_all(std::uint64_t record_number, nlohmann::ordered_json& record) const;

 private:
  SamplerSet() = default;

  Status check_names(const std::vector<std::string>& others) const;
  Status check_cycles() const;
  Status check_lists() const;
  void find_groups();

  std::vector<SamplerColumn> columns_;
  std::vector<std::uint64_t> keys_;             // of each column's streams
  std::vector<std::vector<std::size_t>> uses_;  // sampler columns that each column needs
  std::vector<Constraint> constraints_;
  std::vector<Group> groups_;
  std::vector<std::size_t> group_of_;
  std::uint32_t most_attempts_ = 0;
};

}  // namespace dovetail::pipeline
