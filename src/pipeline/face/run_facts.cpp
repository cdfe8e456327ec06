#include "pipeline/face/run_facts.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "pipeline/report/collect_report.h"
#include "pipeline/report/html_report.h"
#include "pipeline/run/column_work.h"

namespace dovetail::pipeline {
namespace {

constexpr std::string_view kSession = "session";
constexpr const char* kFigures = "figures";

std::vector<KeyFigure> key_figures(const Json& session, const PipelineSpec& spec) {
  std::vector<KeyFigure> figures;
  const Json all = figures_in(session);
  for (const FigureSpec& figure : spec.figures) {
    for (const Json& stored : all) {
      if (!stored.is_object() || stored.value("name", "") != figure.name) continue;
      figures.push_back({figure.name, figure_text(stored), figure.about});
    }
  }
  return figures;
}

}  // namespace

Json stored_session(const Store& store) {
  const auto text = store.property(kSession);
  Json session;
  if (text && *text) session = Json::parse(**text, nullptr, false);
  return session.is_object() ? session : Json::object();
}

Status keep_session(Store& store, const SessionLog& log, const Json& figures) {
  Json session = log.to_json();
  session[kFigures] = figures;
  return store.set_property(kSession, session.dump());
}

Json figures_json(const PipelineSpec& spec, const RunProgress& progress) {
  Json all = Json::array();
  for (std::size_t i = 0; i < spec.figures.size(); ++i) {
    const FigureCount& count = progress.figures[i];
    all.push_back({{"name", spec.figures[i].name}, {"hits", count.hits}, {"of", count.of}});
  }
  return all;
}

Json figures_in(const Json& session) {
  const auto figures = session.find(kFigures);
  return figures == session.end() ? Json() : *figures;
}

std::string figure_text(const Json& figure) {
  const auto hits = figure.value("hits", std::uint64_t{0}),
             of = figure.value("of", std::uint64_t{0});
  if (of == 0) return "no record counts";
  return fmt::format("{:.2f} % ({} of {})",
                     100.0 * static_cast<double>(hits) / static_cast<double>(of), hits, of);
}

Result<std::vector<ColumnTally>> tally(const Store& store, const PipelineSpec& spec) {
  const auto stored = store.columns();
  if (!stored) return fail(stored.error());
  std::vector<ColumnTally> columns;
  for (const ColumnSpec& column : *stored) {
    ColumnTally& tally = columns.emplace_back();
    tally.name = column.name;
    const bool judges =
        std::any_of(spec.columns.begin(), spec.columns.end(), [&](const ColumnDescription& one) {
          return one.name == column.name && std::holds_alternative<ValidationColumn>(one.what);
        });
    if (judges) tally.passed.emplace();
  }
  const Status read = store.for_each_cell([&](const CellView& cell) {
    if (cell.column >= columns.size()) return true;
    ColumnTally& column = columns[cell.column];
    ++column.cells[static_cast<std::size_t>(cell.state)];
    if (cell.provenance.cut) ++column.cut;
    if (!column.passed || cell.state == CellState::kSkipped) return true;
    ++column.passed->of;
    if (cell.state != CellState::kValue) return true;
    if (is_passed(Json::parse(cell.json, nullptr, false))) ++column.passed->hits;
    return true;
  });
  if (!read) return fail(read.error());
  return columns;
}

Status write_report(const Store& store, const PipelineSpec& spec, const RunFiles& files) {
  const Json session = stored_session(store);
  const auto infos = column_infos(spec);
  CollectOptions options;
  if (spec.target) {
    options.refusal = [&spec](const Json& row) { return refusal(*spec.target, row); };
    options.target = spec.target->count;
  }
  auto data = collect_report(store, infos, options);
  if (!data) return fail(std::move(data.error()));
  data->title = spec.name;
  data->made = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)));
  data->records = spec.records;
  data->wall_us = static_cast<std::uint64_t>(elapsed_in(session).count());
  data->endpoints = endpoints_in(session, spec);
  data->key_figures = key_figures(session, spec);
  if (spec.target) data->accepted_means = "target_accepted";
  return write_html_report(*data, files.report);
}

}  // namespace dovetail::pipeline
