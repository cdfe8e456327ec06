#include "pipeline/run/runner.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <variant>

#include "pipeline/run/column_work.h"
#include "pipeline/run/mutation.h"
#include "pipeline/run/run.h"
#include "pipeline/run/run_plan.h"

namespace dovetail::pipeline {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(50);
// While all models have plenty to do, answers are heard together.
constexpr auto kLinger = std::chrono::milliseconds(20);
constexpr auto kTellEvery = std::chrono::milliseconds(100);
// Commands that run at the same time wait for something, more often than not.
constexpr std::uint32_t kWorkersPerCore = 2;
// With a target, so many records are open beside those that it is likely to need.
constexpr std::uint64_t kSpareRecords = 8;
// Rows of records that wait to be passed on, in memory.
constexpr std::size_t kRowsThatWait = 4096;
constexpr std::size_t kHeardAtOnce = 8;
constexpr std::size_t kEmittedAtOnce = 32;

}  // namespace

Run::Run(const PipelineSpec& spec, const RunPorts& ports)
    : spec_(spec),
      ports_(ports),
      queues_(spec),
      frontier_(queues_.plans, queues_.instant + 1, frontier_options(),
                [this](RecordId record) { return open(record); }),
      emitter_(
          spec, *ports.store, [this](const FinishedRecord& record) { return emit(record); },
          kRowsThatWait, ports.in_order),
      gate_(spec.limits.error_window, spec.limits.error_share),
      inbox_(std::make_shared<Inbox<News>>()),
      unheard_cost_(std::make_shared<std::atomic<std::uint64_t>>(0)),
      pool_(kWorkersPerCore * std::max(1U, std::thread::hardware_concurrency())) {
  progress_.records = spec.records;
  progress_.columns.resize(spec.columns.size());
  progress_.ready.resize(spec.models.size());
  // Before the first answer: a new origin is written at once.
  for (const ColumnDescription& column : spec.columns) {
    const std::string* model = column.model();
    origins_.push_back(model == nullptr ? 0
                                        : ports.store->origin({*model, hash_of(column.recipe)}));
    auto& keys = response_keys_.emplace_back();
    if (column.call() == nullptr) continue;
    const Json* schema = answer_schema(column);
    keys.emplace(spec.models[queues_.of_column[response_keys_.size() - 1]], column.call()->sampling,
                 schema == nullptr ? Json() : *schema, answer_pattern(column));
  }
  opens_by_demand_ = std::any_of(queues_.of_column.begin(), queues_.of_column.end(),
                                 [&](QueueId queue) { return queue != queues_.instant; });
  for (const ModelClient& model : ports.models) {
    model.on_room([inbox = inbox_] { inbox->wake(); });
  }
  if (ports.leases != nullptr) {
    shared_.emplace(*ports.leases, *ports.store,
                    [inbox = inbox_](LeaseNews news) { inbox->put(std::move(news)); });
  }
}

Result<RunProgress> Run::run() {
  Status ended = play();
  // Sinks hold the inbox, not the run: nothing that is still under way is waited for after an
  // error, or when asked to stop at once.
  if (const Status stored = ports_.store->flush(); ended && !stored) ended = stored;
  if (shared_) shared_.reset();  // what is complete is said to be
  if (!ended) return fail(ended.error());
  progress_.figures = emitter_.figures();
  tell();
  return progress_;
}

FrontierOptions Run::frontier_options() const {
  FrontierOptions options;
  options.records = ports_.leases == nullptr ? spec_.records : 0;
  options.window = mutated(RunMutant::kIgnoresWindow) ? spec_.records : spec_.window;
  const bool fair = spec_.fair != mutated(RunMutant::kOtherOrder);
  options.order = fair ? CellOrder::kFair : CellOrder::kFinishFirst;
  options.instant = {queues_.instant};
  // Room that comes finds cells that are ready.
  for (const ModelClient& model : ports_.models) {
    options.low_water = std::max(options.low_water, model.slots);
  }
  return options;
}

Status Run::play() {
  const auto spent = ports_.store->spent();
  if (!spent) return fail(spent.error());
  add_cost(*spent);
  // No question may be asked any more, but what has been made is nobody's to keep back.
  if (is_paid_out() && ports_.resumes) {
    const auto all = pass_on_stored();
    if (!all) return fail(all.error());
    if (*all) return end_complete();
  }
  told_ = Clock::now();
  for (;;) {
    const StopLevel asked = ports_.stop ? ports_.stop() : StopLevel::kNone;
    if (asked != StopLevel::kNone) close(RunEnd::kStopped, "it was asked to stop");
    if (gate_.shut()) {
      close(RunEnd::kErrors, fmt::format("{} of the last {} cells of models failed for good",
                                         gate_.failures(), gate_.window()));
    }
    if (shared_) hear_of_cost();
    if (is_paid_out()) {
      close(RunEnd::kCost,
            fmt::format("limits.cost is {}, which is spent: more is asked for where it is higher",
                        *spec_.limits.cost));
    }
    if (asked == StopLevel::kNow) return {};
    // What is still under way is of records beyond the target.
    if (emitter_.reached() || (shared_ && shared_->all_made())) return {};
    if (spec_.target) aim();
    if (shared_ && !closing_) shared_->lease_ahead(frontier_.opened());
    bool more = false;
    if (!closing_) {
      const std::uint64_t opened = frontier_.opened();
      begin();
      more = make_instant_cells();
      // Records that an earlier session has finished bring nobody anything: the next ones may.
      more = more || frontier_.opened() > opened;
    }
    hand_over();
    const auto emitted = pass_on();
    if (!emitted) return fail(emitted.error());
    more = more || *emitted;
    if (shared_) complete_ranges();
    if (const auto now = Clock::now(); now >= told_ + kTellEvery) {
      told_ = now;
      tell();
      for (const ModelClient& model : ports_.models) {
        if (Status ok = model.check(); !ok) return ok;
      }
    }
    if (!failure_ && under_way_ == 0 && !more && durable_ == batches_) {
      if (closing_) return {};
      if (!shared_ && frontier_.done()) return end_complete();
      if (!shared_ || !shared_->expects_more()) salvage();
    }
    // Nothing else would come meanwhile.
    const bool waits_for_store = under_way_ == 0 && !more && durable_ < batches_;
    if (waits_for_store && std::exchange(hurried_, batches_) < batches_) ports_.store->hurry();
    take_news(more);
    if (failure_) return fail(*failure_);
  }
}

// Passes on some of the records that are durable; true: there are more. A commit makes many of them
// durable, which models with room do not wait for.
Result<bool> Run::pass_on() {
  const bool early = mutated(RunMutant::kEmitsEarly);
  const RecordId before = emitter_.next();
  const auto more = emitter_.durable(early ? batches_ : durable_, kEmittedAtOnce);
  if (!more || emitter_.next() == before || !ports_.emitted) return more;
  if (Status ok = ports_.emitted(); !ok) return fail(std::move(ok.error()));
  return more;
}

// As many records are open as the target is likely to need, at the share accepted so far.
void Run::aim() {
  const double share = (static_cast<double>(emitter_.accepted()) + 1.0) /
                       (static_cast<double>(emitter_.next()) + 1.0);
  const auto missing = static_cast<double>(spec_.target->count - emitter_.accepted());
  const double needed = std::min(missing / share, static_cast<double>(spec_.window));
  // Those that have ended and wait for an earlier one count, too.
  const std::uint64_t waiting = frontier_.ended() - emitter_.next();
  const std::uint64_t open = static_cast<std::uint64_t>(needed) + kSpareRecords;
  frontier_.set_window(std::min(spec_.window, open - std::min(open, waiting)));
}

Status Run::end_complete() {
  if (spec_.target && !emitter_.reached()) {
    close(RunEnd::kTargetMissed,
          fmt::format("{} of {} candidates were accepted, target_accepted.count is {}",
                      emitter_.accepted(), spec_.records, spec_.target->count));
  }
  return {};
}

void Run::close(RunEnd end, std::string why) {
  if (closing_) return;
  closing_ = true;
  progress_.end = end;
  progress_.why = std::move(why);
}

void Run::tell() {
  if (!ports_.progress) return;
  progress_.opened = frontier_.opened();
  progress_.window_is_full = frontier_.open() >= spec_.window;
  for (QueueId model = 0; model < queues_.blocking; ++model) {
    progress_.ready[model] = frontier_.ready(model);
  }
  ports_.progress(progress_);
}

void Run::take_news(bool more) {
  const bool patient = all_are_busy();
  // What is told is looked at when its time has come. Only looked at beside answers, an endpoint
  // would seem to have free slots: those of the answers that came together.
  const Clock::duration until_told = told_ + kTellEvery - Clock::now();
  const Clock::duration at_most = patient ? kLinger : kPatience;
  const Clock::duration limit = more ? Clock::duration(0) : std::min(at_most, until_told);
  std::size_t heard = 0;
  for (News& news : inbox_->take(limit, patient)) {
    // Models with room do not wait until all of a burst is read.
    if (heard++ % kHeardAtOnce == 0 && !closing_) begin();
    std::visit([this](auto& one) { hear(one); }, news);
  }
}

bool Run::all_are_busy() const {
  return !ports_.models.empty() &&
         std::all_of(ports_.models.begin(), ports_.models.end(),
                     [](const ModelClient& model) { return model.busy && model.busy(); });
}

void Run::add_cost(std::uint64_t nano) {
  spent_ += nano;
  progress_.cost = 1e-9 * static_cast<double>(spent_);
}

// Whether it is, once all answers that are there have been heard.
bool Run::will_be_paid_out() const {
  return spec_.limits.cost &&
         1e-9 * static_cast<double>(spent_ + unheard_cost_->load()) >= *spec_.limits.cost;
}

// What all workers have spent, as far as this one knows; the next commit tells the rest.
void Run::hear_of_cost() {
  const std::uint64_t known = ports_.store->known_spent();
  if (known > spent_) add_cost(known - spent_);
}

Result<RunProgress> run_pipeline(const PipelineSpec& spec, const RunPorts& ports) {
  return Run(spec, ports).run();
}

}  // namespace dovetail::pipeline
