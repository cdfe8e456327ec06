#include "pipeline/report/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <system_error>

#include "pipeline/report/charts.h"
#include "pipeline/report/preview.h"
#include "pipeline/report/report_style.h"
#include "pipeline/report/terminal_text.h"
#include "pipeline/report/xml_text.h"

namespace dovetail::pipeline {
namespace {

constexpr std::size_t kMostRows = 14;

std::string indented(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// A score or category as people read it: without the quotes of JSON.
std::string plain(const std::string& json) {
  const Json value = Json::parse(json, nullptr, false);
  return value.is_string() ? value.get<std::string>() : json;
}

// Numbers by value, other texts by the alphabet.
bool by_score(const TopValues::Entry& a, const TopValues::Entry& b) {
  const Json x = Json::parse(a.text, nullptr, false), y = Json::parse(b.text, nullptr, false);
  if (x.is_number() != y.is_number()) return x.is_number();
  if (x.is_number() && x != y) return x.get<double>() < y.get<double>();
  return a.text < b.text;
}

std::uint64_t state(const ColumnReport& column, CellState state) {
  return column.states[static_cast<std::size_t>(state)];
}

// Of a validation column: the share of its cells that passed; else empty.
std::string passed_text(const ColumnReport& column) {
  const std::uint64_t judged = column.passed + column.not_passed;
  return judged == 0 ? "" : percent_text(column.passed, judged);
}

std::string money(std::uint64_t cost, const std::string& currency) {
  return currency.empty() ? cost_text(cost) : cost_text(cost) + " " + currency;
}

std::string duration(std::uint64_t us) {
  return duration_text(std::chrono::microseconds(static_cast<std::int64_t>(us)));
}

// Tables whose cells know what they hold, for narrow screens on which they stand one below another.
class Table {
 public:
  struct Head {
    std::string_view text;
    bool number = false;
  };
  Table(std::string_view style, std::vector<Head> heads) : heads_(std::move(heads)) {
    out_ = fmt::format("<table class=\"data {}\"><thead><tr>", style);
    for (const Head& head : heads_) {
      out_ += fmt::format("<th scope=\"col\"{}>{}</th>", head.number ? " class=\"n\"" : "",
                          escaped(head.text));
    }
    out_ += "</tr></thead><tbody>\n";
  }
  // Cells are XHTML already.
  void row(const std::vector<std::string>& cells) {
    out_ += "<tr>";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i == 0) {
        out_ += fmt::format("<th scope=\"row\">{}</th>", cells[i]);
        continue;
      }
      out_ += fmt::format("<td{} data-label=\"{}\">{}</td>", heads_[i].number ? " class=\"n\"" : "",
                          escaped(heads_[i].text), cells[i]);
    }
    out_ += "</tr>\n";
  }
  std::string finish() && { return std::move(out_) + "</tbody></table>\n"; }

 private:
  std::vector<Head> heads_;
  std::string out_;
};

class Page {
 public:
  explicit Page(const ReportData& data) : data_(data) {}

  std::string make() {
    head();
    tiles();
    overview();
    endpoints();
    columns();
    errors();
    dropped();
    samples();
    origins();
    out_ += fmt::format(
        "<footer>Made by <code>dovetail pipeline report</code>{}. This file needs no network and "
        "holds no script.</footer>\n</main></body></html>\n",
        data_.made.empty() ? "" : " on " + escaped(data_.made));
    return std::move(out_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void head() {
    const std::string title = escaped(data_.title.empty() ? "Pipeline" : data_.title);
    out_ +=
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head>"
        "<meta charset=\"utf-8\"/>"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src &#39;none&#39;; "
        "style-src &#39;unsafe-inline&#39;\"/>"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>"
        "<meta name=\"generator\" content=\"dovetail\"/>";
    add("<title>{}</title><style>{}</style></head>\n<body><main>\n", title, kReportStyle);
    add("<h1>{}</h1><p class=\"soft\">{}</p>\n", title, escaped(data_.made));
    out_ += "<nav aria-label=\"Sections\">";
    out_ += "<a href=\"#overview\">Overview</a>";
    if (!data_.endpoints.empty()) out_ += "<a href=\"#endpoints\">Endpoints</a>";
    out_ += "<a href=\"#columns\">Columns</a>";
    if (!data_.errors.empty()) out_ += "<a href=\"#errors\">Errors</a>";
    if (!data_.drops.empty()) out_ += "<a href=\"#dropped\">Dropped</a>";
    if (!data_.samples.empty()) out_ += "<a href=\"#samples\">Samples</a>";
    if (!data_.origins.empty()) out_ += "<a href=\"#origins\">Provenance</a>";
    out_ += "</nav>\n";
  }

  void tile(std::string_view name, std::string_view value, std::string_view more,
            std::string_view style = "tile") {
    add("<div class=\"{}\"><dt>{}</dt><dd>{}</dd>{}</div>\n", style, escaped(name), escaped(value),
        more.empty() ? "" : fmt::format("<dd class=\"more\">{}</dd>", escaped(more)));
  }

  void tiles() {
    if (!data_.key_figures.empty()) {
      out_ += "<dl class=\"tiles\">\n";
      for (const KeyFigure& figure : data_.key_figures) {
        tile(figure.name, figure.value, figure.explanation, "tile key");
      }
      out_ += "</dl>\n";
    }
    out_ += "<dl class=\"tiles\">\n";
    const std::uint64_t ended = data_.finished + data_.dropped;
    tile("Records", grouped(data_.finished),
         data_.records > ended ? fmt::format("of {}; {} not finished", grouped(data_.records),
                                             grouped(data_.records - ended))
                               : "finished");
    if (data_.accepted) tile("Accepted", grouped(*data_.accepted), data_.accepted_means);
    tile("Dropped", grouped(data_.dropped),
         ended == 0 ? "" : percent_text(data_.dropped, ended) + " of those that ended");
    if (data_.wall_us) {
      const auto seconds = static_cast<double>(*data_.wall_us) / 1e6;
      tile("Time", duration(*data_.wall_us),
           seconds > 0 ? fmt::format("{} records/s", compact(static_cast<double>(ended) / seconds))
                       : "");
    }
    if (data_.prompt_tokens + data_.completion_tokens > 0) {
      tile("Tokens", compact(static_cast<double>(data_.prompt_tokens + data_.completion_tokens)),
           fmt::format("{} in, {} out", compact(static_cast<double>(data_.prompt_tokens)),
                       compact(static_cast<double>(data_.completion_tokens))));
    }
    if (data_.cost > 0) tile("Cost", money(data_.cost, data_.currency), "");
    out_ += "</dl>\n";
  }

  void endpoints() {
    if (data_.endpoints.empty()) return;
    out_ += "<section id=\"endpoints\"><h2>Endpoints over time</h2>\n";
    for (const EndpointReport& endpoint : data_.endpoints) {
      add("<div class=\"card\"><header><h3>{}</h3>{}</header>\n", escaped(endpoint.name),
          endpoint.model.empty() || endpoint.model == endpoint.name
              ? ""
              : fmt::format("<span class=\"chip\">{}</span>", escaped(endpoint.model)));
      if (const std::string held = held_text(endpoint); !held.empty()) {
        add("<p>It was {}: with a higher one it may be faster, if the endpoint has room.</p>\n",
            escaped(held));
      }
      endpoint_activity(endpoint.activity);
      out_ += "</div>\n";
    }
    out_ += "</section>\n";
  }

  void endpoint_activity(const Activity& activity) {
    const Activity::Bucket total = activity.total();
    const std::uint64_t time = total.covered();
    if (time == 0) {
      out_ += "<p class=\"soft\">Nothing was recorded.</p>\n";
      return;
    }
    const double mean_in_flight = static_cast<double>(total.in_flight) / static_cast<double>(time);
    const double mean_limit = static_cast<double>(total.limit) / static_cast<double>(time);
    out_ += "<div class=\"occupancy\">";
    out_ += occupancy_chart(activity, {"Occupancy",
                                       fmt::format("{} in flight on average, of {}",
                                                   label_of(mean_in_flight, Unit::kNumber),
                                                   label_of(mean_limit, Unit::kNumber)),
                                       "time of the run", "requests"});
    out_ +=
        "</div><div class=\"legend\"><span><i class=\"k-area\"></i>in flight</span>"
        "<span><i class=\"k-limit\"></i>limit</span>"
        "<span>strip below: what it was doing, as in the table</span></div>\n";
    out_ += cause_bar(activity);
    Table table("stacked",
                {{"What it was doing"}, {"Time", true}, {"Share", true}, {"Free slots", true}});
    for (std::size_t cause = 0; cause < kSlotCauses; ++cause) {
      if (total.by[cause] == 0) continue;
      const auto what = static_cast<SlotCause>(cause);
      const double free =
          static_cast<double>(activity.free_slots()[cause]) / static_cast<double>(total.by[cause]);
      table.row({fmt::format("<i class=\"swatch c-{}\"></i>{}", name_of(what), words_of(what)),
                 duration(total.by[cause]), percent_text(total.by[cause], time),
                 fmt::format("{:.1f}", free)});
    }
    out_ += std::move(table).finish();
    out_ +=
        "<p class=\"soft\">Free slots: the limit less what was in flight, on average over that "
        "time.</p>\n";
  }

  void overview() {
    out_ += "<section id=\"overview\"><h2>Overview</h2><div class=\"card wide\">\n";
    Table table("stacked", {{"Column"},
                            {"Type"},
                            {"Model"},
                            {"Values", true},
                            {"Skipped", true},
                            {"Failed", true},
                            {"Passed", true},
                            {"Retried", true},
                            {"Cut", true},
                            {"Tokens in", true},
                            {"Tokens out", true},
                            {"Latency, median", true},
                            {"95%", true}});
    for (std::size_t i = 0; i < data_.columns.size(); ++i) {
      const ColumnReport& column = data_.columns[i];
      const bool asked = column.asked > 0;
      const std::uint64_t failed =
          state(column, CellState::kFailed) + state(column, CellState::kDropped);
      const auto number = [](std::uint64_t n) { return n == 0 ? std::string() : grouped(n); };
      const auto tokens = [&](std::uint64_t n) {
        return asked ? compact(static_cast<double>(n)) : std::string();
      };
      table.row(
          {fmt::format("<a href=\"#column-{}\">{}</a>", i, escaped(column.info.name)),
           escaped(column.info.type), escaped(column.info.model),
           grouped(state(column, CellState::kValue)), number(state(column, CellState::kSkipped)),
           failed == 0 ? "" : fmt::format("<span class=\"bad\">{}</span>", grouped(failed)),
           passed_text(column), number(column.retried), number(column.cut),
           tokens(column.prompt_tokens), tokens(column.completion_tokens),
           asked ? label_of(static_cast<double>(column.latency_us.quantile(0.5)), Unit::kMicros)
                 : "",
           asked ? label_of(static_cast<double>(column.latency_us.quantile(0.95)), Unit::kMicros)
                 : ""});
    }
    out_ += std::move(table).finish() + "</div></section>\n";
  }

  void fact(std::string_view name, const std::string& value) {
    add("<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value));
  }

  void columns() {
    out_ += "<section id=\"columns\"><h2>Columns</h2>\n";
    out_ += "<div class=\"columns\">\n";
    for (std::size_t i = 0; i < data_.columns.size(); ++i) column_card(i);
    out_ += "</div></section>\n";
  }

  void column_card(std::size_t index) {
    const ColumnReport& column = data_.columns[index];
    // What a model made has several charts side by side.
    add("<article class=\"card{}\" id=\"column-{}\"><header><h3>{}</h3>",
        column.asked > 0 ? " full" : "", index, escaped(column.info.name));
    for (const std::string& chip : {column.info.type, column.info.model}) {
      if (!chip.empty()) add("<span class=\"chip\">{}</span>", escaped(chip));
    }
    out_ += "</header><dl class=\"facts\">";
    fact("values", grouped(state(column, CellState::kValue)));
    if (column.texts.count() > 0) {
      fact("different",
           (column.texts.others() > 0 ? "more than " : "") + grouped(column.texts.distinct()));
    }
    if (const auto n = state(column, CellState::kSkipped); n > 0) fact("skipped", grouped(n));
    if (const auto n = state(column, CellState::kFailed); n > 0) fact("failed", grouped(n));
    if (const std::string share = passed_text(column); !share.empty()) {
      fact("valid", fmt::format("{} ({})", grouped(column.passed), share));
    }
    if (column.records_dropped > 0) fact("records dropped", grouped(column.records_dropped));
    if (column.asked > 0) {
      if (column.retried > 0) {
        fact("answered again", fmt::format("{} ({})", grouped(column.retried),
                                           percent_text(column.retried, column.asked)));
      }
      if (column.cut > 0) {
        fact("cut by max_tokens",
             fmt::format("{} ({})", grouped(column.cut), percent_text(column.cut, column.asked)));
      }
      fact("tokens",
           fmt::format("{} in, {} out", compact(static_cast<double>(column.prompt_tokens)),
                       compact(static_cast<double>(column.completion_tokens))));
      if (column.cost > 0) fact("cost", money(column.cost, data_.currency));
    }
    out_ += "</dl><div class=\"charts\">\n";
    for (const RubricReport& rubric : column.rubrics) scores(rubric);
    values(column);
    if (column.asked > 0) {
      out_ += histogram_chart(
          column.latency_us, Unit::kMicros,
          {"Latency", quantiles(column.latency_us, Unit::kMicros), "time per cell", "cells"});
      if (column.completion_size.greatest() > 0) {
        out_ += histogram_chart(column.completion_size, Unit::kCount,
                                {"Answers", quantiles(column.completion_size, Unit::kCount),
                                 "tokens out per cell", "cells"});
      }
      if (column.prompt_size.greatest() > 0) {
        out_ += histogram_chart(column.prompt_size, Unit::kCount,
                                {"Prompts", quantiles(column.prompt_size, Unit::kCount),
                                 "tokens in per cell", "cells"});
      }
    }
    out_ += "</div></article>\n";
  }

  static std::string quantiles(const LogHistogram& histogram, Unit unit) {
    return fmt::format("median {}, 95%: {}",
                       label_of(static_cast<double>(histogram.quantile(0.5)), unit),
                       label_of(static_cast<double>(histogram.quantile(0.95)), unit));
  }

  void scores(const RubricReport& rubric) {
    std::vector<Bar> bars;
    std::vector<std::string> known = rubric.options;
    for (const std::string& option : known) {
      bars.push_back({plain(option), rubric.scores.count_of(option), false});
    }
    // Scores that are no options of the file as it is now.
    std::vector<TopValues::Entry> others = rubric.scores.top(kMostRows);
    std::sort(others.begin(), others.end(), by_score);
    std::uint64_t left = rubric.scores.count();
    for (const TopValues::Entry& entry : others) {
      if (std::find(known.begin(), known.end(), entry.text) != known.end()) continue;
      bars.push_back({plain(entry.text), entry.count, false});
    }
    for (const Bar& bar : bars) left -= std::min(left, bar.count);
    if (left > 0) bars.push_back({"others", left, true});
    std::string note = "score";
    if (rubric.numbers > 0 && rubric.numbers == rubric.scores.count()) {
      note = fmt::format("score, mean {:.2f}", rubric.sum / static_cast<double>(rubric.numbers));
    }
    out_ += bar_chart(bars, rubric.scores.count(), {rubric.name, note, "", ""});
  }

  // What the values are, if that can be shown: few different ones, or numbers.
  void values(const ColumnReport& column) {
    const TopValues& texts = column.texts;
    if (column.numbers.count() > 0 && column.numbers.count() == texts.count() &&
        (!column.numbers.whole() || texts.distinct() > kMostRows)) {
      out_ += number_chart(
          column.numbers,
          {"Values",
           fmt::format("{} to {}, mean {}", label_of(column.numbers.least(), Unit::kNumber),
                       label_of(column.numbers.greatest(), Unit::kNumber),
                       label_of(column.numbers.mean(), Unit::kNumber)),
           "value", "cells"});
      return;
    }
    std::vector<TopValues::Entry> top = texts.top(kMostRows);
    if (column.numbers.count() > 0) std::sort(top.begin(), top.end(), by_score);
    std::uint64_t shown = 0;
    for (const TopValues::Entry& entry : top) shown += entry.count;
    // Where nearly every value is another, a list of some says nothing.
    if (!top.empty() &&
        (shown * 2 >= texts.count() || texts.top(1)[0].count * 20 >= texts.count()) &&
        texts.count() > texts.distinct()) {
      std::vector<Bar> bars;
      for (const TopValues::Entry& entry : top) bars.push_back({entry.text, entry.count, false});
      if (texts.count() > shown) bars.push_back({"others", texts.count() - shown, true});
      out_ += bar_chart(bars, texts.count(), {"Values", "", "", ""});
    }
    if (column.length.count() > 0 && column.length.greatest() > 24) {
      out_ += histogram_chart(
          column.length, Unit::kCount,
          {"Length", quantiles(column.length, Unit::kCount), "characters per value", "cells"});
    }
  }

  // Whose reasons these are.
  std::string source_of(const ErrorReport& error) const {
    return error.column ? escaped(data_.columns[*error.column].info.name) : "target_accepted";
  }

  void reasons(const std::vector<ErrorReport>& all, std::uint64_t others, std::string_view what) {
    Table table("stacked", {{"Column"}, {what, true}, {"Record", true}, {"For example"}});
    for (const ErrorReport& error : all) {
      table.row(
          {source_of(error), grouped(error.count), grouped(error.record), escaped(error.example)});
    }
    out_ += std::move(table).finish();
    if (others > 0) add("<p class=\"soft\">And {} of other kinds.</p>\n", grouped(others));
  }

  void errors() {
    if (data_.errors.empty()) return;
    out_ += "<section id=\"errors\"><h2>Errors</h2><div class=\"card\">\n";
    reasons(data_.errors, data_.other_errors, "Cells");
    out_ += "</div></section>\n";
  }

  void dropped() {
    if (data_.drops.empty()) return;
    out_ += "<section id=\"dropped\"><h2>Dropped records</h2><div class=\"card\">\n";
    reasons(data_.drops, data_.other_drops, "Records");
    std::vector<Bar> bars;
    for (const ColumnReport& column : data_.columns) {
      if (column.records_dropped == 0) continue;
      bars.push_back({column.info.name, column.records_dropped, false});
    }
    if (!bars.empty()) {
      out_ += bar_chart(bars, data_.dropped,
                        {"Dropped records", "by the column that dropped them", "", ""});
    }
    out_ += "</div>\n";
    if (!data_.first_dropped.empty()) {
      add("<p class=\"soft\">The first {}, with what had been made of them:</p>\n",
          data_.first_dropped.size());
    }
    for (const Sample& sample : data_.first_dropped) {
      const std::string reason = shorten(printable(sample.reason), 90);
      record(sample, " <span>" + escaped(reason) + "</span>", false);
    }
    out_ += "</section>\n";
  }

  void samples() {
    if (data_.samples.empty()) return;
    out_ += "<section id=\"samples\"><h2>Samples</h2>\n";
    for (const Sample& sample : data_.samples) {
      record(sample, teaser(sample), &sample == &data_.samples.front());
    }
    out_ += "</section>\n";
  }

  void record(const Sample& sample, const std::string& teaser, bool open) {
    add("<details{}><summary>Record {}{}</summary><dl class=\"row\">\n",
        open ? " open=\"open\"" : "", grouped(sample.record), teaser);
    if (!sample.reason.empty()) {
      add("<dt>dropped because</dt><dd><span class=\"bad\">{}</span></dd>\n",
          escaped(sample.reason));
    }
    for (const SampleCell& cell : sample.cells) {
      add("<dt>{}</dt><dd>{}</dd>\n", escaped(data_.columns[cell.column].info.name),
          sample_value(cell));
    }
    out_ += "</dl></details>\n";
  }

  static std::string teaser(const Sample& sample) {
    for (const SampleCell& cell : sample.cells) {
      if (cell.state != CellState::kValue || !cell.value.is_string()) continue;
      const std::string text = shorten(printable(cell.value.get<std::string>()), 90);
      if (!text.empty()) return " <span>" + escaped(text) + "</span>";
    }
    return "";
  }

  static std::string sample_value(const SampleCell& cell) {
    if (cell.state == CellState::kSkipped) return "<span class=\"soft\">skipped</span>";
    if (cell.state != CellState::kValue) {
      return fmt::format("<span class=\"bad\">{}</span>", escaped(cell.text));
    }
    if (!cell.text.empty()) {
      return fmt::format(
          "<div class=\"value\">{}</div><span class=\"soft\">and {} more bytes</span>",
          escaped(cell.text), grouped(cell.left_out));
    }
    if (is_verdict(cell.value)) return verdict(cell.value);
    if (cell.value.is_string()) {
      return fmt::format("<div class=\"value\">{}</div>", escaped(cell.value.get<std::string>()));
    }
    const bool nested = cell.value.is_structured();
    return fmt::format("<div class=\"value{}\">{}</div>", nested ? " mono" : "",
                       escaped(indented(cell.value, nested ? 2 : -1)));
  }

  static std::string verdict(const Json& value) {
    std::string out;
    for (const auto& [rubric, one] : value.items()) {
      const auto reasoning = one.find("reasoning");
      out += fmt::format("<div class=\"verdict\">{} <span class=\"score\">{}</span>{}</div>",
                         escaped(rubric), escaped(plain(indented(one["score"]))),
                         reasoning == one.end() || reasoning->is_null()
                             ? ""
                             : fmt::format("<div class=\"value soft\">{}</div>",
                                           escaped(plain(indented(*reasoning)))));
    }
    return out;
  }

  void origins() {
    if (data_.origins.empty()) return;
    out_ += "<section id=\"origins\"><h2>Provenance</h2><div class=\"card wide\">\n";
    Table table("stacked", {{"Column"}, {"Model"}, {"Parameters"}, {"Cells", true}});
    for (const ColumnReport& column : data_.columns) {
      for (const auto& [origin, cells] : column.origins) {
        if (origin > data_.origins.size()) continue;
        const OriginReport& from = data_.origins[origin - 1];
        table.row({escaped(column.info.name), escaped(from.model),
                   fmt::format("<code>{}</code>", escaped(from.parameters)), grouped(cells)});
      }
    }
    out_ += std::move(table).finish();
    out_ +=
        "<p class=\"soft\">Parameters: a hash of all that the file says of how the column is "
        "made. Two rows for a column: its cells come from different settings.</p>"
        "</div></section>\n";
  }

  const ReportData& data_;
  std::string out_;
};

}  // namespace

std::string html_report(const ReportData& data) { return Page(data).make(); }

Status write_html_report(const ReportData& data, const std::filesystem::path& file) {
  const std::string page = html_report(data);
  std::filesystem::path beside = file;
  beside += ".part";
  {
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    out << page;
    out.close();
    if (!out) {
      const int number = errno;
      std::error_code ignored;
      std::filesystem::remove(beside, ignored);
      return fail(ErrorKind::kIo, "{}: cannot write the report: {}", file.string(),
                  std::strerror(number));
    }
  }
  std::error_code error;
  std::filesystem::rename(beside, file, error);
  if (error) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    return fail(ErrorKind::kIo, "{}: cannot write the report: {}", file.string(), error.message());
  }
  return {};
}

}  // namespace dovetail::pipeline
