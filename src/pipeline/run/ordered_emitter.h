#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "pipeline/run/open_records.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// A record all of whose cells are durable.
struct FinishedRecord {
  RecordId record = 0;
  // The columns that are in the results, in their order; null for what was skipped or has failed.
  // Behind a text that a model wrote stands whether it was cut: see cut_mark().
  Json row;
  std::string reason;  // why it was dropped, or not accepted; empty: it was not
};

// What a figure of the report comes to.
struct FigureCount {
  std::uint64_t hits = 0, of = 0;  // records
};

// Passes on records in the order of their numbers, or of their ends, each once it is durable. Those
// that wait are kept in memory up to a bound; beyond it they are read from the store again.
class OrderedEmitter {
 public:
  using Emit = std::function<Status(const FinishedRecord&)>;

  OrderedEmitter(const PipelineSpec& spec, const Store& store, Emit emit,
                 std::size_t most_rows = 4096, bool in_order = true)
      : spec_(spec),
        store_(store),
        emit_(std::move(emit)),
        most_rows_(most_rows),
        in_order_(in_order),
        figures_(spec.figures.size()) {}

  // A record all of whose cells are durable once batch `batch` is; batches are counted from 1.
  void add(RecordId record, std::uint64_t batch, OpenRecord&& what);

  // Batches up to this one are durable: passes on up to `most` of the records that are; true: there
  // are more. Errors: emit's, the store's. With a target, nothing is passed on once it is reached.
  Result<bool> durable(std::uint64_t batch,
                       std::size_t most = std::numeric_limits<std::size_t>::max());

  // So many records have been passed on; in order: [0, next()).
  RecordId next() const { return next_; }
  // Of them, those that were neither dropped nor refused by the target's condition.
  std::uint64_t accepted() const { return accepted_; }
  // Of the spec's figures, over the accepted records passed on.
  const std::vector<FigureCount>& figures() const { return figures_; }
  bool reached() const { return spec_.target && accepted_ >= spec_.target->count; }

 private:
  struct Waiting {
    std::uint64_t batch = 0;
    std::optional<OpenRecord> record;  // absent: it is read again
  };

  Status pass_on(RecordId record, Waiting& waiting);
  std::optional<RecordId> first() const;

  const PipelineSpec& spec_;
  const Store& store_;
  Emit emit_;
  std::size_t most_rows_;
  bool in_order_;
  std::size_t rows_ = 0;  // held in memory
  std::unordered_map<RecordId, Waiting> waiting_;
  std::deque<RecordId> ended_;  // those that wait, in the order of their ends, where that counts
  RecordId next_ = 0;
  std::uint64_t accepted_ = 0;
  std::vector<FigureCount> figures_;
};

}  // namespace dovetail::pipeline
