#include "pipeline/run/runner.h"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <variant>

#include "pipeline/flow/frontier.h"
#include "pipeline/run/column_work.h"

namespace dovetail::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kPatience = std::chrono::milliseconds(50);
constexpr auto kProgressEvery = std::chrono::milliseconds(200);
// Rows of finished records that wait for an earlier one stay in memory up to so many; the rest is
// read from the store again.
constexpr std::size_t kMostWaitingRows = 4096;

struct Came {
  Cell cell;
  Clock::time_point sent;
  Result<ModelAnswer> answer;
};
struct Durable {
  std::uint64_t batch = 0;
  Status status;
};
using News = std::variant<Came, Durable>;

// Shared with sinks, which may outlive the run.
class Inbox {
 public:
  void put(News news) {
    {
      const std::lock_guard lock(mutex_);
      news_.push_back(std::move(news));
    }
    filled_.notify_one();
  }
  std::vector<News> take(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, limit, [&] { return !news_.empty(); });
    return std::exchange(news_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<News> news_;
};

struct OpenRecord {
  Json row = Json::object();
  std::vector<bool> absent;                 // by column: skipped or failed
  std::map<ColumnId, std::uint32_t> tries;  // of cells that were asked for again
  std::string reason;
};

Hash128 hash_of(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return {hash.high64, hash.low64};
}

class Run {
 public:
  Run(const PipelineSpec& spec, const RunPorts& ports)
      : spec_(spec),
        ports_(ports),
        instant_(static_cast<QueueId>(spec.models.size())),
        frontier_(plans(), instant_ + 1, frontier_options(),
                  [this](RecordId record) { return open(record); }),
        inbox_(std::make_shared<Inbox>()) {
    progress_.records = spec.records;
    progress_.columns.resize(spec.columns.size());
    progress_.in_flight.assign(spec.models.size(), 0);
    for (const ModelSpec& model : spec.models) names_.push_back(model.alias);
  }

  Result<RunProgress> run() {
    const Status ended = play();
    // Nothing of this run is left behind it, however it ended.
    while (under_way() > 0) take_news();
    if (const Status stored = ports_.store->flush(); ended && !stored) return fail(stored.error());
    if (!ended) return fail(ended.error());
    if (ports_.progress) ports_.progress(progress_);
    return progress_;
  }

 private:
  std::vector<ColumnPlan> plans() const {
    std::vector<ColumnPlan> result;
    for (const ColumnDescription& column : spec_.columns) {
      const std::string* alias = column.model();
      const auto queue = alias == nullptr ? instant_ : static_cast<QueueId>(spec_.model(*alias));
      result.push_back({column.needs, queue, column.priority});
    }
    return result;
  }

  FrontierOptions frontier_options() const {
    FrontierOptions options;
    options.records = spec_.records;
    options.window = spec_.window;
    options.order = spec_.fair ? CellOrder::kFair : CellOrder::kFinishFirst;
    options.instant = {instant_};
    // A freed slot finds its next cell ready.
    for (const ModelClient& model : ports_.models) {
      options.low_water = std::max(options.low_water, model.slots);
    }
    return options;
  }

  Status play() {
    auto told = Clock::now();
    while (!failure_ && !(frontier_.done() && durable_ == batches_)) {
      const bool stopping = ports_.stop && ports_.stop();
      if (stopping && under_way() == 0 && durable_ == batches_) {
        progress_.interrupted = true;
        break;
      }
      if (!stopping) begin_what_can_be();
      store();
      if (Clock::now() - told > kProgressEvery) {
        told = Clock::now();
        if (ports_.progress) ports_.progress(progress_);
      }
      take_news();
      if (!failure_) failure_ = emit();
    }
    return failure_ ? Status(fail(*failure_)) : Status();
  }

  std::uint64_t under_way() const {
    std::uint64_t sum = 0;
    for (const std::uint32_t count : progress_.in_flight) sum += count;
    return sum;
  }

  // What the store has of a record.
  std::vector<ColumnId> open(RecordId record) {
    OpenRecord& opened = open_[record];
    opened.absent.assign(spec_.columns.size(), false);
    std::vector<ColumnId> ended;
    const auto cells = ports_.store->read_record(record);
    if (!cells) {
      failure_ = cells.error();
      return ended;
    }
    for (const CellResult& cell : *cells) {
      ended.push_back(cell.column);
      const ColumnDescription& column = spec_.columns[cell.column];
      switch (cell.state) {
        case CellState::kValue:
          opened.row[column.name] = Json::parse(cell.json, nullptr, false);
          ++progress_.columns[cell.column].values;
          break;
        case CellState::kSkipped:
          set_absent(opened, cell.column);
          ++progress_.columns[cell.column].skipped;
          break;
        case CellState::kFailed:
        case CellState::kDropped:
          set_absent(opened, cell.column);
          ++progress_.columns[cell.column].failed;
          if (cell.state == CellState::kDropped) opened.reason = cell.json;
          break;
      }
    }
    if (!opened.reason.empty()) to_drop_.push_back(record);
    return ended;
  }

  void set_absent(OpenRecord& record, ColumnId column) {
    record.absent[column] = true;
    record.row[spec_.columns[column].name] = nullptr;
  }

  // Fills free slots, each from its own queue, and makes what needs no model.
  void begin_what_can_be() {
    for (bool progress = true; progress && !failure_;) {
      make_instant_cells();
      progress = false;
      for (QueueId model = 0; model < instant_; ++model) {
        while (progress_.in_flight[model] < ports_.models[model].slots) {
          const auto cell = frontier_.take(model);
          make_instant_cells();
          if (!cell) break;
          progress = true;
          if (!begin(model, *cell)) break;
        }
      }
    }
  }

  void make_instant_cells() {
    do {
      for (const RecordId record : std::exchange(to_drop_, {})) frontier_.drop(record);
      while (const auto cell = frontier_.take(instant_)) make(*cell);
      while (const auto record = frontier_.next_ended()) end_record(*record);
    } while (!to_drop_.empty());
  }

  void make(Cell cell) {
    if (skip(cell)) return;
    OpenRecord& record = open_.at(cell.record);
    const ColumnDescription& column = spec_.columns[cell.column];
    if (const auto* expression = std::get_if<ExpressionColumn>(&column.what)) {
      auto value = evaluate(*expression, record.row);
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

  // True: the cell is skipped, by its own condition or since something that it needs is not there.
  bool skip(Cell cell) {
    const ColumnDescription& column = spec_.columns[cell.column];
    OpenRecord& record = open_.at(cell.record);
    const bool lacks = std::any_of(column.needs.begin(), column.needs.end(),
                                   [&](ColumnId need) { return record.absent[need]; });
    const Result<bool> skipped = lacks ? Result<bool>(true) : is_skipped(column, record.row);
    if (!skipped) {
      give_up(cell, skipped.error());
      return true;
    }
    if (!*skipped) return false;
    set_absent(record, cell.column);
    ++progress_.columns[cell.column].skipped;
    end(cell, CellState::kSkipped, "", {});
    return true;
  }

  // False: the model takes no more now.
  bool begin(QueueId model, Cell cell) {
    if (skip(cell)) return true;
    OpenRecord& record = open_.at(cell.record);
    const ColumnDescription& column = spec_.columns[cell.column];
    const auto tried = record.tries.find(cell.column);
    const std::uint32_t attempt = tried == record.tries.end() ? 0 : tried->second;
    const auto request = make_request(column, record.row, seed_of(cell, attempt));
    if (!request) {
      give_up(cell, request.error());
      return true;
    }
    const Status taken = ports_.models[model].submit(
        *request, [inbox = inbox_, cell, sent = Clock::now()](Result<ModelAnswer> answer) {
          inbox->put(Came{cell, sent, std::move(answer)});
        });
    if (taken) {
      ++progress_.in_flight[model];
      return true;
    }
    if (taken.error().kind != ErrorKind::kExhausted) {
      give_up(cell, taken.error());
      return true;
    }
    frontier_.give_back(cell);
    return false;
  }

  std::uint64_t seed_of(Cell cell, std::uint32_t attempt) const {
    const std::string key = fmt::format("{}/{}/{}/{}", spec_.seed, spec_.columns[cell.column].name,
                                        cell.record, attempt);
    return XXH3_64bits(key.data(), key.size());
  }

  void take_news() {
    for (News& news : inbox_->take(kPatience)) {
      std::visit([this](auto& one) { hear(one); }, news);
    }
  }

  void hear(Came& came) {
    const Cell cell = came.cell;
    const ColumnDescription& column = spec_.columns[cell.column];
    const std::size_t model = spec_.model(*column.model());
    --progress_.in_flight[model];
    ColumnCounts& counts = progress_.columns[cell.column];
    Provenance provenance;
    Result<Json> value = fail(ErrorKind::kInternal, "no answer");
    if (came.answer) {
      provenance.prompt_tokens = came.answer->usage.prompt_tokens;
      provenance.completion_tokens = came.answer->usage.completion_tokens;
      counts.prompt_tokens += provenance.prompt_tokens;
      counts.completion_tokens += provenance.completion_tokens;
      value = read_answer(column, *came.answer);
      if (!value && came.answer->cut) {
        value = fail(ErrorKind::kInvalid, "{}; it was cut by max_tokens", value.error().message);
      }
    } else {
      value = fail(came.answer.error());
    }
    std::uint32_t& tries = open_.at(cell.record).tries[cell.column];
    provenance.attempts = ++tries;
    provenance.latency_us = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - came.sent).count());
    provenance.origin = ports_.store->origin({names_[model], hash_of(column.recipe)});
    if (value) return keep(cell, *std::move(value), provenance);
    if (tries <= column.retries) {
      ++counts.retries;
      return frontier_.give_back(cell);
    }
    give_up(cell, value.error(), provenance);
  }

  void hear(Durable& durable) {
    if (!durable.status && !failure_) failure_ = durable.status.error();
    durable_ = std::max(durable_, durable.batch);
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
    set_absent(record, cell.column);
    ++progress_.columns[cell.column].failed;
    const bool drops = column.on_failure == FailurePolicy::kDropRecord;
    std::string reason = fmt::format("{}: {}", column.name, error.message);
    if (drops && record.reason.empty()) record.reason = reason;
    if (drops) to_drop_.push_back(cell.record);
    end(cell, drops ? CellState::kDropped : CellState::kFailed, std::move(reason), provenance);
  }

  // Its cell is on its way into the store; what needed it may begin.
  void end(Cell cell, CellState state, std::string json, const Provenance& provenance) {
    unstored_.push_back({cell.record, cell.column, state, std::move(json), provenance});
    if (state == CellState::kDropped) frontier_.drop(cell.record);
    frontier_.end(cell);
  }

  // Hands over what has ended since the last time. The store commits in this order: no cell is
  // durable without those that it was made of.
  void store() {
    make_instant_cells();
    if (unstored_.empty() && ended_.empty()) return;
    std::sort(unstored_.begin(), unstored_.end(), [](const CellResult& a, const CellResult& b) {
      return std::pair(a.record, a.column) < std::pair(b.record, b.column);
    });
    const std::uint64_t batch = ++batches_;
    for (const RecordId record : std::exchange(ended_, {})) {
      waiting_.emplace(record, Waiting{batch, std::move(open_.at(record))});
      open_.erase(record);
    }
    ports_.store->put(unstored_, [inbox = inbox_, batch](Status status) {
      inbox->put(Durable{batch, std::move(status)});
    });
    unstored_.clear();
  }

  void end_record(RecordId record) { ended_.push_back(record); }

  // Passes on what is durable, in order.
  std::optional<Error> emit() {
    for (auto next = waiting_.find(emitted_);
         next != waiting_.end() && next->second.batch <= durable_; next = waiting_.find(emitted_)) {
      const OpenRecord& record = next->second.record;
      FinishedRecord finished{emitted_, Json::object(), record.reason};
      for (const ColumnDescription& column : spec_.columns) {
        const auto value = record.row.find(column.name);
        if (!column.drop)
          finished.row[column.name] = value == record.row.end() ? Json(nullptr) : *value;
      }
      if (const Status ok = ports_.emit(finished); !ok) return ok.error();
      record.reason.empty() ? ++progress_.finished : ++progress_.dropped;
      waiting_.erase(next);
      ++emitted_;
    }
    return std::nullopt;
  }

  struct Waiting {
    std::uint64_t batch = 0;  // with which it is durable
    OpenRecord record;
  };

  const PipelineSpec& spec_;
  const RunPorts& ports_;
  QueueId instant_;
  std::unordered_map<RecordId, OpenRecord> open_;
  std::vector<RecordId> to_drop_;
  RunProgress progress_;
  std::optional<Error> failure_;
  Frontier frontier_;
  std::shared_ptr<Inbox> inbox_;
  std::vector<std::string> names_;

  std::vector<CellResult> unstored_;
  std::vector<RecordId> ended_;  // whose cells are all in unstored_ or in the store
  std::uint64_t batches_ = 0, durable_ = 0;
  std::unordered_map<RecordId, Waiting> waiting_;
  RecordId emitted_ = 0;
};

}  // namespace

Result<RunProgress> run_pipeline(const PipelineSpec& spec, const RunPorts& ports) {
  return Run(spec, ports).run();
}

std::vector<Hash128> fingerprints(const PipelineSpec& spec) {
  std::vector<Hash128> result;
  for (const ColumnDescription& column : spec.columns) {
    std::string all = fmt::format("{}\n{}\n{}", spec.seed, column.name, column.recipe);
    for (const ColumnId need : column.needs) {
      all += fmt::format("\n{:016x}{:016x}", result[need].high, result[need].low);
    }
    result.push_back(hash_of(all));
  }
  return result;
}

}  // namespace dovetail::pipeline
