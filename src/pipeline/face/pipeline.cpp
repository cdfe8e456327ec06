#include "dovetail/pipeline.h"

#include <utility>

#include "pipeline/config/own_column.h"
#include "pipeline/face/session.h"

namespace dovetail {
namespace {

using pipeline::PipelineSpec;
using pipeline::RunProgress;
using pipeline::StopLevel;

pipeline::ResultsFormat format_of(const PipelineRunOptions& options) {
  return options.format == PipelineFormat::kCsv ? pipeline::ResultsFormat::kCsv
                                                : pipeline::ResultsFormat::kJsonLines;
}

std::vector<PipelineColumn> columns_of(const PipelineSpec& spec) {
  std::vector<PipelineColumn> columns;
  for (const pipeline::ColumnDescription& column : spec.columns) {
    PipelineColumn& shown = columns.emplace_back();
    shown.name = column.name;
    shown.type = column.type();
    if (column.model() != nullptr) shown.model = *column.model();
    for (const pipeline::ColumnId need : column.needs) {
      shown.needs.push_back(spec.columns[need].name);
    }
    shown.dropped = column.drop;
  }
  return columns;
}

PipelineState state_of(const RunProgress& progress) {
  PipelineState state;
  state.records = progress.records;
  state.finished = progress.finished;
  state.dropped = progress.dropped;
  for (const pipeline::ColumnCounts& counts : progress.columns) {
    state.columns.push_back({counts.values, counts.skipped, counts.failed, counts.in_flight});
    state.prompt_tokens += counts.prompt_tokens;
    state.completion_tokens += counts.completion_tokens;
  }
  state.cost = progress.cost;
  return state;
}

PipelineEnd end_of(pipeline::RunEnd end) {
  switch (end) {
    case pipeline::RunEnd::kComplete:
      return PipelineEnd::kComplete;
    case pipeline::RunEnd::kStopped:
      return PipelineEnd::kStopped;
    case pipeline::RunEnd::kErrors:
      return PipelineEnd::kErrors;
    case pipeline::RunEnd::kCost:
      return PipelineEnd::kCost;
    case pipeline::RunEnd::kTargetMissed:
      break;
  }
  return PipelineEnd::kTargetMissed;
}

StopLevel level_of(PipelineStop stop) {
  switch (stop) {
    case PipelineStop::kNone:
      return StopLevel::kNone;
    case PipelineStop::kFinish:
      return StopLevel::kFinish;
    case PipelineStop::kNow:
      break;
  }
  return StopLevel::kNow;
}

// The caller's functions, none of which throws into the run. `thrown` is what on_progress and stop
// have thrown: the run is stopped then.
pipeline::JobPorts ports_of(const PipelineRunOptions& options, std::optional<Error>& thrown) {
  pipeline::JobPorts ports;
  if (options.on_record) {
    ports.emit = [&options](const pipeline::FinishedRecord& record) {
      return pipeline::guarded("on_record()", [&] {
        return options.on_record({record.record, record.row, record.reason});
      });
    };
  }
  if (options.on_progress) {
    ports.progress = [&](const RunProgress& progress) {
      if (thrown) return;
      const Status told = pipeline::guarded("on_progress()", [&]() -> Status {
        options.on_progress(state_of(progress));
        return {};
      });
      if (!told) thrown = told.error();
    };
  }
  ports.stop = [&] {
    if (thrown) return StopLevel::kFinish;
    if (!options.stop) return StopLevel::kNone;
    const auto asked = pipeline::guarded(
        "stop()", [&]() -> Result<StopLevel> { return level_of(options.stop()); });
    if (asked) return *asked;
    thrown = asked.error();
    return StopLevel::kFinish;
  };
  return ports;
}

}  // namespace

struct Pipeline::Impl {
  PipelineSpec spec;
  std::vector<PipelineColumn> columns;
};

Pipeline::Pipeline(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;
Pipeline& Pipeline::operator=(Pipeline&&) noexcept = default;

Result<Pipeline> Pipeline::read(const std::filesystem::path& file, PipelineReadOptions options) {
  auto spec = pipeline::read_pipeline(file, options.records, options.column_types);
  if (!spec) return fail(std::move(spec.error()));
  auto impl = std::make_unique<Impl>();
  impl->columns = columns_of(*spec);
  impl->spec = *std::move(spec);
  return Pipeline(std::move(impl));
}

const std::string& Pipeline::name() const { return impl_->spec.name; }
std::uint64_t Pipeline::records() const { return impl_->spec.records; }
const std::vector<PipelineColumn>& Pipeline::columns() const { return impl_->columns; }

Result<PipelineSummary> Pipeline::run(const PipelineRunOptions& options) const {
  pipeline::SessionOptions session_options;
  session_options.folder = options.output;
  session_options.database = options.database;
  session_options.resume = options.resume;
  session_options.retry_failed = options.retry_failed;
  session_options.format = format_of(options);
  session_options.report = options.report;
  session_options.unordered = options.unordered;
  if (options.on_waiting) {
    session_options.on_waiting = [told = options.on_waiting](const Error& error) {
      // Nobody waits for what it says.
      (void)pipeline::guarded("on_waiting()", [&]() -> Status {
        told(error);
        return {};
      });
    };
  }
  auto opened = pipeline::Session::open(impl_->spec, session_options);
  if (!opened) return fail(std::move(opened.error()));
  pipeline::Session& session = **opened;
  if (const Status ok = session.start(); !ok) return fail(ok.error());
  std::optional<Error> thrown;
  const auto progress = session.run(ports_of(options, thrown));
  if (!progress) return fail(progress.error());
  const Status finished = session.finish(*progress);
  if (thrown) return fail(*std::move(thrown));
  if (!finished) return fail(finished.error());

  PipelineSummary summary;
  summary.end = end_of(progress->end);
  summary.why = progress->why;
  summary.state = state_of(*progress);
  for (std::size_t i = 0; i < impl_->spec.figures.size(); ++i) {
    const pipeline::FigureCount& count = progress->figures[i];
    summary.figures.push_back({impl_->spec.figures[i].name, count.hits, count.of});
  }
  summary.elapsed = session.log().elapsed();
  const auto& changes = session.job().changes().columns;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    if (changes[i] != pipeline::Reconciliation::Change::kRemade) continue;
    summary.remade.push_back(impl_->columns[i].name);
  }
  summary.results = session.files().results;
  summary.dropped = session.files().dropped;
  summary.report = session.files().report;
  return summary;
}

Result<std::vector<PipelineColumnCounts>> Pipeline::counts(
    const PipelineRunOptions& options) const {
  const auto store = pipeline::look_at(
      impl_->spec,
      pipeline::files_of(impl_->spec, options.output, options.database, format_of(options)));
  if (!store) return fail(store.error());
  const auto stored = (*store)->columns();
  if (!stored) return fail(stored.error());
  const auto cells = (*store)->counts();
  if (!cells) return fail(cells.error());
  std::vector<PipelineColumnCounts> counts(impl_->columns.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (std::size_t at = 0; at < stored->size() && at < cells->size(); ++at) {
      if ((*stored)[at].name != impl_->columns[i].name) continue;
      using pipeline::CellState;
      const auto count = [&](CellState state) {
        return (*cells)[at][static_cast<std::size_t>(state)];
      };
      counts[i] = {count(CellState::kValue), count(CellState::kSkipped),
                   count(CellState::kFailed) + count(CellState::kDropped), 0};
    }
  }
  return counts;
}

}  // namespace dovetail
