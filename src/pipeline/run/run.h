#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "pipeline/flow/frontier.h"
#include "pipeline/run/error_gate.h"
#include "pipeline/run/inbox.h"
#include "pipeline/run/open_records.h"
#include "pipeline/run/ordered_emitter.h"
#include "pipeline/run/response_cache.h"
#include "pipeline/run/run_plan.h"
#include "pipeline/run/runner.h"
#include "pipeline/run/shared_records.h"
#include "pipeline/run/work_pool.h"

namespace dovetail::pipeline {

// What other threads tell the one that runs.
struct Came {
  Cell cell;
  Hash128 key;             // of the answer in the cache
  std::uint64_t cost = 0;  // in 1e-9 of the currency
  Result<ModelAnswer> answer;
};
struct Worked {
  Cell cell;
  Result<Json> value;
};
struct Durable {
  std::uint64_t batch = 0;
  Place range = 0;  // that it is of, where the run is shared
  Status status;
};
using News = std::variant<Came, Worked, Durable, LeaseNews>;

// A run while it goes on, behind run_pipeline(). One thread; what comes from others comes through
// the inbox.
class Run {
 public:
  Run(const PipelineSpec& spec, const RunPorts& ports);
  Result<RunProgress> run();

 private:
  using Clock = std::chrono::steady_clock;

  // runner.cpp: the loop, its ends and what it tells.
  FrontierOptions frontier_options() const;
  Status play();
  Result<bool> pass_on();
  void aim();
  Status end_complete();
  void close(RunEnd end, std::string why);
  void tell();
  void take_news(bool more);
  bool all_are_busy() const;
  void add_cost(std::uint64_t nano);
  void hear_of_cost();
  bool is_paid_out() const { return spec_.limits.cost && progress_.cost >= *spec_.limits.cost; }
  bool will_be_paid_out() const;

  // run_records.cpp: records from the store, into it and out; leased ranges of them.
  void hear(LeaseNews& news);
  void abandon(const SharedRecords::Lost& lost);
  void complete_ranges();
  Result<std::vector<CellResult>> stored(RecordId record);
  std::vector<ColumnId> open(RecordId record);
  Result<bool> pass_on_stored();
  std::vector<ColumnId> all_columns() const;
  void hear(Durable& durable);
  void hand_over();
  void put(std::span<const CellResult> cells);
  void note(RunEvent event);
  void note_range(RunEventKind kind, const RecordRange& range);
  Status emit(const FinishedRecord& record);
  // The number that a record has in the run.
  RecordId id_of(Place place) const { return shared_ ? shared_->ranges().record(place) : place; }

  // run_cells.cpp: which cells are made next, those without a model, and how each ends.
  void begin();
  bool make_instant_cells();
  void make(Cell cell);
  void work(Cell cell);
  void hear(Worked& worked);
  bool skip(Cell cell);
  void set_absent(Cell cell);
  void keep(Cell cell, Json value, const Provenance& provenance);
  void give_up(Cell cell, const Error& error);
  // What the attempts at a cell have cost that came to nothing.
  Provenance cost_of_failed(Cell cell) const;
  void end(Cell cell, CellState state, std::string json, const Provenance& provenance);

  // run_models.cpp: questions to models and their answers.
  bool ask(QueueId model, Cell cell);
  bool answer_from_cache(Cell cell, const Hash128& key);
  std::uint64_t seed_of(Cell cell, std::uint32_t attempt) const;
  void hear(Came& came);
  bool take_answer(Cell cell, const ModelAnswer& answer, Provenance provenance);
  void hear_failure(Cell cell, const Error& error);
  void put_back(Cell cell);
  void defer(Cell cell);
  void salvage();
  void fail_for_good(Cell cell, const Error& error);

  const PipelineSpec& spec_;
  const RunPorts& ports_;
  RunQueues queues_;
  std::vector<std::uint32_t> origins_;                      // by column; 0: no model's
  std::vector<std::optional<ResponseKeys>> response_keys_;  // by column; of those with a model
  bool opens_by_demand_ = false;

  std::unordered_map<RecordId, OpenRecord> open_;
  std::optional<Error> failure_;
  RunProgress progress_;
  Frontier frontier_;
  OrderedEmitter emitter_;
  ErrorGate gate_;
  std::shared_ptr<Inbox<News>> inbox_;

  std::optional<SharedRecords> shared_;  // where several processes make the run

  bool closing_ = false;
  std::uint64_t under_way_ = 0;  // requests whose answer has not been taken
  std::uint64_t sent_ = 0;
  std::uint64_t spent_ = 0;  // in 1e-9 of the currency, by all sessions and workers
  // The same for answers that are in the inbox; shared with sinks, which add to it.
  std::shared_ptr<std::atomic<std::uint64_t>> unheard_cost_;
  std::vector<Cell> deferred_;
  std::set<std::pair<RecordId, ColumnId>> salvaged_;
  std::vector<CellResult> unstored_;
  std::uint64_t batches_ = 0, durable_ = 0;
  std::uint64_t hurried_ = 0;  // batches that the store was asked to commit at once
  Clock::time_point told_;     // when the run's progress was told last
  WorkPool pool_;              // its threads end before what they use
};

}  // namespace dovetail::pipeline
