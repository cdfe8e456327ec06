#include "pipeline/run/runner.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <variant>

#include "pipeline/flow/frontier.h"
#include "pipeline/run/column_work.h"
#include "pipeline/run/error_gate.h"
#include "pipeline/run/fingerprints.h"
#include "pipeline/run/inbox.h"
#include "pipeline/run/mutation.h"
#include "pipeline/run/open_records.h"
#include "pipeline/run/price.h"
#include "pipeline/run/response_cache.h"
#include "pipeline/run/run_queues.h"
#include "pipeline/run/work_pool.h"

namespace dovetail::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::milliseconds(50);
constexpr auto kTellEvery = std::chrono::milliseconds(100);
// Cells without a model that are made before models are looked after again: a fraction of a
// millisecond.
constexpr int kInstantCells = 64;
constexpr std::size_t kHeardAtOnce = 8;
// Commands that run at the same time wait for something, more often than not.
constexpr std::uint32_t kWorkersPerCore = 2;
// With a target, so many records are open beside those that it is likely to need.
constexpr std::uint64_t kSpareRecords = 8;

struct Came {
  Cell cell;
  Hash128 key;  // of the answer in the cache
  Result<ModelAnswer> answer;
};
struct Worked {
  Cell cell;
  Result<Json> value;
};
struct Durable {
  std::uint64_t batch = 0;
  Status status;
};
using News = std::variant<Came, Worked, Durable>;

// Nothing is wrong with the request: its model was busy or away.
bool is_worth_waiting(const Error& error) {
  return error.kind == ErrorKind::kExhausted || error.kind == ErrorKind::kUnavailable ||
         error.kind == ErrorKind::kTimeout;
}

class Run {
 public:
  Run(const PipelineSpec& spec, const RunPorts& ports)
      : spec_(spec),
        ports_(ports),
        queues_(spec),
        frontier_(queues_.plans, queues_.instant + 1, frontier_options(),
                  [this](RecordId record) { return open(record); }),
        emitter_(spec, *ports.store, [this](const FinishedRecord& record) { return emit(record); }),
        gate_(spec.limits.error_window, spec.limits.error_share),
        inbox_(std::make_shared<Inbox<News>>()),
        pool_(kWorkersPerCore * std::max(1U, std::thread::hardware_concurrency())) {
    progress_.records = spec.records;
    progress_.columns.resize(spec.columns.size());
    progress_.ready.resize(spec.models.size());
    // Before the first answer: a new origin is written at once.
    for (const ColumnDescription& column : spec.columns) {
      const std::string* model = column.model();
      origins_.push_back(model == nullptr ? 0
                                          : ports.store->origin({*model, hash_of(column.recipe)}));
    }
    opens_by_demand_ = std::any_of(queues_.of_column.begin(), queues_.of_column.end(),
                                   [&](QueueId queue) { return queue != queues_.instant; });
    for (const ModelClient& model : ports.models) {
      model.on_room([inbox = inbox_] { inbox->wake(); });
    }
  }

  Result<RunProgress> run() {
    Status ended = play();
    // Sinks hold the inbox, not the run: nothing that is still under way is waited for after an
    // error, or when asked to stop at once.
    if (const Status stored = ports_.store->flush(); ended && !stored) ended = stored;
    if (!ended) return fail(ended.error());
    progress_.figures = emitter_.figures();
    tell();
    return progress_;
  }

 private:
  FrontierOptions frontier_options() const {
    FrontierOptions options;
    options.records = spec_.records;
    options.window = kRunMutant == RunMutant::kIgnoresWindow ? spec_.records : spec_.window;
    const bool fair = spec_.fair != (kRunMutant == RunMutant::kOtherOrder);
    options.order = fair ? CellOrder::kFair : CellOrder::kFinishFirst;
    options.instant = {queues_.instant};
    // Room that comes finds cells that are ready.
    for (const ModelClient& model : ports_.models) {
      options.low_water = std::max(options.low_water, model.slots);
    }
    return options;
  }

  Status play() {
    auto told = Clock::now();
    for (;;) {
      const StopLevel asked = ports_.stop ? ports_.stop() : StopLevel::kNone;
      if (asked != StopLevel::kNone) close(RunEnd::kStopped, "it was asked to stop");
      if (gate_.shut()) {
        close(RunEnd::kErrors, fmt::format("{} of the last {} cells of models failed for good",
                                           gate_.failures(), gate_.window()));
      }
      if (spec_.limits.cost && progress_.cost >= *spec_.limits.cost) {
        close(RunEnd::kCost, fmt::format("it has cost {:.4f}, limits.cost is {}", progress_.cost,
                                         *spec_.limits.cost));
      }
      if (asked == StopLevel::kNow) return {};
      // What is still under way is of records beyond the target.
      if (emitter_.reached()) return {};
      if (spec_.target) aim();
      bool more = false;
      if (!closing_) {
        const std::uint64_t opened = frontier_.opened();
        begin();
        more = make_instant_cells();
        // Records that an earlier session has finished bring nobody anything: the next ones may.
        more = more || frontier_.opened() > opened;
      }
      hand_over();
      constexpr bool kEarly = kRunMutant == RunMutant::kEmitsEarly;
      if (Status ok = emitter_.durable(kEarly ? batches_ : durable_); !ok) return ok;
      if (const auto now = Clock::now(); now - told > kTellEvery) {
        told = now;
        tell();
        for (const ModelClient& model : ports_.models) {
          if (Status ok = model.check(); !ok) return ok;
        }
      }
      if (!failure_ && under_way_ == 0 && !more && durable_ == batches_) {
        if (closing_) return {};
        if (frontier_.done()) return end_complete();
        salvage();
      }
      take_news(more ? std::chrono::milliseconds(0) : kPatience);
      if (failure_) return fail(*failure_);
    }
  }

  // As many records are open as the target is likely to need, at the share accepted so far.
  void aim() {
    const double share = (static_cast<double>(emitter_.accepted()) + 1.0) /
                         (static_cast<double>(emitter_.next()) + 1.0);
    const auto missing = static_cast<double>(spec_.target->count - emitter_.accepted());
    const double needed = std::min(missing / share, static_cast<double>(spec_.window));
    // Those that have ended and wait for an earlier one count, too.
    const std::uint64_t waiting = frontier_.ended() - emitter_.next();
    const std::uint64_t open = static_cast<std::uint64_t>(needed) + kSpareRecords;
    frontier_.set_window(std::min(spec_.window, open - std::min(open, waiting)));
  }

  Status end_complete() {
    if (spec_.target && !emitter_.reached()) {
      close(RunEnd::kTargetMissed,
            fmt::format("{} of {} candidates were accepted, target_accepted.count is {}",
                        emitter_.accepted(), spec_.records, spec_.target->count));
    }
    return {};
  }

  void close(RunEnd end, std::string why) {
    if (closing_) return;
    closing_ = true;
    progress_.end = end;
    progress_.why = std::move(why);
  }

  void tell() {
    if (!ports_.progress) return;
    progress_.opened = frontier_.opened();
    progress_.window_is_full = frontier_.open() >= spec_.window;
    for (QueueId model = 0; model < queues_.blocking; ++model) {
      progress_.ready[model] = frontier_.ready(model);
    }
    ports_.progress(progress_);
  }

  // What the store has of a record.
  std::vector<ColumnId> open(RecordId record) {
    OpenRecord& opened = open_[record];
    opened.absent.assign(spec_.columns.size(), false);
    note({.kind = RunEventKind::kOpen, .cell = {record, 0}});
    std::vector<ColumnId> ended;
    if (!ports_.resumes) return ended;
    const auto cells = ports_.store->read_record(record);
    if (!cells) {
      failure_ = cells.error();
      return ended;
    }
    for (const CellResult& cell : *cells) {
      ended.push_back(cell.column);
      if (const Status ok = apply(spec_, cell, opened); !ok) failure_ = ok.error();
      ColumnCounts& counts = progress_.columns[cell.column];
      if (cell.state == CellState::kValue) ++counts.values;
      if (cell.state == CellState::kSkipped) ++counts.skipped;
      if (cell.state == CellState::kFailed || cell.state == CellState::kDropped) ++counts.failed;
      note({.kind = RunEventKind::kStored,
            .cell = {record, cell.column},
            .number = static_cast<std::uint64_t>(cell.state)});
    }
    // Nothing more of a dropped record is made.
    if (!opened.reason.empty()) {
      ended.resize(spec_.columns.size());
      for (ColumnId column = 0; column < ended.size(); ++column) ended[column] = column;
    }
    return ended;
  }

  // Gives each model what it has room for, from its own queue.
  void begin() {
    for (QueueId model = 0; model <= queues_.blocking; ++model) {
      std::uint32_t room = model == queues_.blocking ? pool_.room() : ports_.models[model].room();
      note({.kind = RunEventKind::kRoom, .queue = model, .number = room});
      while (room > 0) {
        const auto cell = frontier_.take(model);
        if (!cell) break;
        if (skip(*cell)) continue;
        if (model == queues_.blocking) {
          work(*cell);
        } else if (!ask(model, *cell)) {
          room = 1;
        }
        --room;
        if constexpr (kRunMutant == RunMutant::kLeavesRoom) break;
      }
      note({.kind = RunEventKind::kPass, .queue = model, .number = room});
    }
  }

  // Makes some of the cells that need no model; true: there are more.
  bool make_instant_cells() {
    for (int count = 0; count < kInstantCells; ++count) {
      // Models open the records that they need; without models, whatever is next is opened.
      if (opens_by_demand_ && frontier_.ready(queues_.instant) == 0) return false;
      const auto cell = frontier_.take(queues_.instant);
      if (!cell) return false;
      if (!skip(*cell)) make(*cell);
    }
    return true;
  }

  void make(Cell cell) {
    OpenRecord& record = open_.at(cell.record);
    const ColumnDescription& column = spec_.columns[cell.column];
    if (!std::holds_alternative<SeedColumn>(column.what) &&
        !std::holds_alternative<DrawnColumn>(column.what)) {
      auto value = evaluate(column, record.row);
      return value ? keep(cell, *std::move(value), {}) : give_up(cell, value.error());
    }
    // It may have been drawn together with another.
    if (!record.row.contains(column.name)) {
      if (const Status drawn = ports_.draw(cell.column, cell.record, record.row); !drawn) {
        return give_up(cell, drawn.error());
      }
    }
    Json value = record.row.at(column.name);
    keep(cell, std::move(value), {});
  }

  // Makes a cell on another thread.
  void work(Cell cell) {
    const ColumnDescription& column = spec_.columns[cell.column];
    ++under_way_;
    ++progress_.columns[cell.column].in_flight;
    note({.kind = RunEventKind::kSend, .queue = queues_.blocking, .cell = cell});
    pool_.submit([inbox = inbox_, cell, &column, row = open_.at(cell.record).row] {
      return [inbox, worked = Worked{cell, evaluate(column, row)}] { inbox->put(worked); };
    });
  }

  void hear(Worked& worked) {
    --under_way_;
    --progress_.columns[worked.cell.column].in_flight;
    note({.kind = RunEventKind::kAnswer, .queue = queues_.blocking, .cell = worked.cell});
    worked.value ? keep(worked.cell, *std::move(worked.value), {})
                 : give_up(worked.cell, worked.value.error());
  }

  // True: the cell is skipped, by its own condition or since something that it needs is not there.
  bool skip(Cell cell) {
    const ColumnDescription& column = spec_.columns[cell.column];
    OpenRecord& record = open_.at(cell.record);
    const bool lacks =
        column.propagate_skip && std::any_of(column.needs.begin(), column.needs.end(),
                                             [&](ColumnId need) { return record.absent[need]; });
    const Result<bool> skipped = lacks ? Result<bool>(true) : is_skipped(column, record.row);
    if (!skipped) {
      give_up(cell, skipped.error());
      return true;
    }
    if (!*skipped) return false;
    set_absent(cell);
    ++progress_.columns[cell.column].skipped;
    end(cell, CellState::kSkipped, "", {});
    return true;
  }

  void set_absent(Cell cell) {
    OpenRecord& record = open_.at(cell.record);
    record.absent[cell.column] = true;
    record.row[spec_.columns[cell.column].name] = nullptr;
  }

  // False: the model takes no more now.
  bool ask(QueueId model, Cell cell) {
    OpenRecord& record = open_.at(cell.record);
    const ColumnDescription& column = spec_.columns[cell.column];
    const std::vector<FailedAttempt>& failed = record.failed[cell.column];
    const auto attempt = static_cast<std::uint32_t>(failed.size());
    const std::uint64_t seed = seed_of(cell, attempt);
    const auto request = make_request(column, record.row, seed, failed);
    if (!request) {
      fail_for_good(cell, request.error(), {});
      return true;
    }
    Hash128 key;
    if (column.cache) {
      key = response_key(spec_.models[model], *request);
      if (answer_from_cache(cell, key)) return true;
    }
    const Status taken = ports_.models[model].submit(
        *request, [inbox = inbox_, cell, key](Result<ModelAnswer> answer) {
          inbox->put(Came{cell, key, std::move(answer)});
        });
    if (taken) {
      ++under_way_;
      ++progress_.columns[cell.column].in_flight;
      ++sent_;
      note({RunEventKind::kSend, model, cell, seed, attempt});
      return true;
    }
    if (taken.error().kind == ErrorKind::kExhausted) {
      frontier_.give_back(cell);
      return false;
    }
    fail_for_good(cell, taken.error(), {});
    return true;
  }

  // An answer of an earlier session whose cell has been forgotten, or was not what its column
  // wants.
  bool answer_from_cache(Cell cell, const Hash128& key) {
    if (!ports_.resumes) return false;
    const auto text = ports_.store->cached(key);
    if (!text || !*text) return false;
    const auto answer = read_response(**text);
    if (!answer) return false;
    ++progress_.columns[cell.column].from_cache;
    note({.kind = RunEventKind::kCached, .cell = cell});
    take_answer(cell, *answer, {});
    return true;
  }

  std::uint64_t seed_of(Cell cell, std::uint32_t attempt) const {
    const std::string key = fmt::format("{}/{}/{}/{}", spec_.seed, spec_.columns[cell.column].name,
                                        cell.record, attempt);
    if constexpr (kRunMutant == RunMutant::kSeedsByTurn) return sent_;
    return XXH3_64bits(key.data(), key.size()) >> 1;  // what JSON takes everywhere
  }

  void take_news(std::chrono::milliseconds limit) {
    std::size_t heard = 0;
    for (News& news : inbox_->take(limit)) {
      std::visit([this](auto& one) { hear(one); }, news);
      // Models with room do not wait until all of a burst is read.
      if (++heard % kHeardAtOnce == 0 && !closing_) begin();
    }
  }

  void hear(Durable& durable) {
    if (!durable.status && !failure_) failure_ = durable.status.error();
    durable_ = durable.batch;
    note({.kind = RunEventKind::kDurable, .number = durable_});
  }

  void hear(Came& came) {
    const Cell cell = came.cell;
    const QueueId model = queues_.of_column[cell.column];
    ColumnCounts& counts = progress_.columns[cell.column];
    --under_way_;
    --counts.in_flight;
    note({.kind = RunEventKind::kAnswer,
          .queue = model,
          .cell = cell,
          .number = came.answer || !is_worth_waiting(came.answer.error()) ? 0U : 1U});
    if (!came.answer) return hear_failure(cell, came.answer.error());
    const ModelAnswer& answer = *came.answer;
    if (spec_.columns[cell.column].cache) {
      ports_.store->remember(came.key, response_text(answer));
    }
    const double cost = cost_of(spec_.models[model], answer.usage);
    progress_.cost += 1e-9 * cost;
    counts.prompt_tokens += answer.usage.prompt_tokens;
    counts.completion_tokens += answer.usage.completion_tokens;
    Provenance provenance;
    provenance.latency_us = answer.on_wire_us;
    provenance.cost = static_cast<std::uint64_t>(cost);
    take_answer(cell, answer, provenance);
  }

  // Makes a value of an answer, or asks again.
  void take_answer(Cell cell, const ModelAnswer& answer, Provenance provenance) {
    const ColumnDescription& column = spec_.columns[cell.column];
    std::vector<FailedAttempt>& failed = open_.at(cell.record).failed[cell.column];
    provenance.attempts = static_cast<std::uint32_t>(failed.size()) + 1;
    provenance.prompt_tokens = answer.usage.prompt_tokens;
    provenance.completion_tokens = answer.usage.completion_tokens;
    provenance.origin = origins_[cell.column];
    auto value = read_answer(column, answer);
    if (value) {
      gate_.ended(false);
      return keep(cell, *std::move(value), provenance);
    }
    Error error = value.error();
    if (answer.cut) error.message += "; it was cut by max_tokens";
    failed.push_back({answer.text, error.message});
    if (!may_ask_again(column, failed)) return fail_for_good(cell, error, provenance);
    ++progress_.columns[cell.column].retries;
    if constexpr (kRunMutant == RunMutant::kDefersForAnswer) return defer(cell);
    put_back(cell);
  }

  void hear_failure(Cell cell, const Error& error) {
    if (!is_worth_waiting(error)) return fail_for_good(cell, error, {});
    if (!salvaged_.contains({cell.record, cell.column})) return defer(cell);
    give_up(cell, error);
  }

  void put_back(Cell cell) {
    note({.kind = RunEventKind::kPutBack, .cell = cell});
    frontier_.give_back(cell);
  }

  void defer(Cell cell) {
    note({.kind = RunEventKind::kDefer, .cell = cell});
    deferred_.push_back(cell);
  }

  // A second chance for cells whose model could not be reached, when there is nothing else to do.
  void salvage() {
    for (const Cell cell : std::exchange(deferred_, {})) {
      salvaged_.insert({cell.record, cell.column});
      put_back(cell);
    }
  }

  void fail_for_good(Cell cell, const Error& error, const Provenance& provenance) {
    gate_.ended(true);
    give_up(cell, error, provenance);
  }

  void keep(Cell cell, Json value, const Provenance& provenance) {
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    open_.at(cell.record).row[spec_.columns[cell.column].name] = std::move(value);
    ++progress_.columns[cell.column].values;
    end(cell, CellState::kValue, std::move(text), provenance);
  }

  void give_up(Cell cell, const Error& error, const Provenance& provenance = {}) {
    const ColumnDescription& column = spec_.columns[cell.column];
    OpenRecord& record = open_.at(cell.record);
    set_absent(cell);
    ++progress_.columns[cell.column].failed;
    const bool drops = column.on_failure == FailurePolicy::kDropRecord;
    std::string reason = fmt::format("{}: {}", column.name, error.message);
    if (drops && record.reason.empty()) record.reason = reason;
    end(cell, drops ? CellState::kDropped : CellState::kFailed, std::move(reason), provenance);
  }

  // Its cell is on its way into the store; what needed it may begin.
  void end(Cell cell, CellState state, std::string json, const Provenance& provenance) {
    note({.kind = RunEventKind::kEnd, .cell = cell, .number = static_cast<std::uint64_t>(state)});
    constexpr bool kForgets = kRunMutant == RunMutant::kForgetsToStore;
    if (!kForgets || cell.record % 16 != 3 || cell.column != 1) {
      unstored_.push_back({cell.record, cell.column, state, std::move(json), provenance});
    }
    if (state == CellState::kDropped) frontier_.drop(cell.record);
    frontier_.end(cell);
  }

  // Hands over what has ended since the last time. The store commits in this order: no cell is
  // durable without those that it was made of.
  void hand_over() {
    if (!unstored_.empty()) {
      std::vector<CellResult> late;
      if constexpr (kRunMutant == RunMutant::kStoresLate) {
        if (unstored_.size() > 1) {
          late.push_back(std::move(unstored_.front()));
          unstored_.erase(unstored_.begin());
        }
      }
      std::sort(unstored_.begin(), unstored_.end(), [](const CellResult& a, const CellResult& b) {
        return std::pair(a.record, a.column) < std::pair(b.record, b.column);
      });
      ports_.store->put(unstored_, [inbox = inbox_, batch = ++batches_](Status status) {
        inbox->put(Durable{batch, std::move(status)});
      });
      if (ports_.observe) note_batch();
      unstored_ = std::move(late);
    }
    while (const auto record = frontier_.next_ended()) {
      const auto ended = open_.find(*record);
      emitter_.add(*record, batches_, std::move(ended->second));
      open_.erase(ended);
    }
  }

  void note(const RunEvent& event) {
    if (ports_.observe) ports_.observe(event);
  }

  void note_batch() {
    for (const CellResult& cell : unstored_) {
      note({.kind = RunEventKind::kStore, .cell = {cell.record, cell.column}, .number = batches_});
    }
  }

  Status emit(const FinishedRecord& record) {
    note({.kind = RunEventKind::kEmit,
          .cell = {record.record, 0},
          .number = record.reason.empty() ? 0U : 1U});
    ++(record.reason.empty() ? progress_.finished : progress_.dropped);
    return ports_.emit(record);
  }

  const PipelineSpec& spec_;
  const RunPorts& ports_;
  RunQueues queues_;
  std::vector<std::uint32_t> origins_;  // by column; 0: no model's
  bool opens_by_demand_ = false;

  std::unordered_map<RecordId, OpenRecord> open_;
  std::optional<Error> failure_;
  RunProgress progress_;
  Frontier frontier_;
  OrderedEmitter emitter_;
  ErrorGate gate_;
  std::shared_ptr<Inbox<News>> inbox_;

  bool closing_ = false;
  std::uint64_t under_way_ = 0;  // requests whose answer has not been taken
  std::uint64_t sent_ = 0;
  std::vector<Cell> deferred_;
  std::set<std::pair<RecordId, ColumnId>> salvaged_;
  std::vector<CellResult> unstored_;
  std::uint64_t batches_ = 0, durable_ = 0;
  WorkPool pool_;  // its threads end before what they use
};

}  // namespace

Result<RunProgress> run_pipeline(const PipelineSpec& spec, const RunPorts& ports) {
  return Run(spec, ports).run();
}

}  // namespace dovetail::pipeline
