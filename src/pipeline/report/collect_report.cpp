#include "pipeline/report/collect_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "pipeline/report/preview.h"
#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

constexpr std::size_t kLongestKind = 200;
constexpr std::size_t kMostRubrics = 64;
constexpr std::size_t kLongestReason = 2000;
constexpr std::string_view kValidationType = "validation";

// splitmix64's finish: any record may be first.
std::uint64_t mixed(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::uint64_t characters(std::string_view text) {
  return static_cast<std::uint64_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

// A reason without what differs from case to case.
std::string kind_of(std::string_view reason) {
  std::string kind;
  for (std::size_t at = 0; at < reason.size() && kind.size() < kLongestKind; ++at) {
    const char c = reason[at];
    if (c >= '0' && c <= '9') {
      if (!kind.ends_with('#')) kind += '#';
    } else if (c == '"' && reason.find('"', at + 1) != std::string_view::npos) {
      kind += "\"\"";
      at = reason.find('"', at + 1);
    } else {
      kind += c;
    }
  }
  return kind;
}

std::string beginning(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  // Not within a character.
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0U) == 0x80U) --most;
  return std::string(text.substr(0, most));
}

SampleCell sample_of(std::size_t place, CellState state, std::string_view json, Json value,
                     std::size_t most) {
  SampleCell sample{place, state, nullptr, "", 0};
  if (state == CellState::kValue && json.size() <= most) {
    sample.value = std::move(value);
    return sample;
  }
  const std::string whole = value.is_string() ? value.get<std::string>() : std::string(json);
  sample.text = beginning(whole, most);
  sample.left_out = whole.size() - sample.text.size();
  return sample;
}

void sort_cells(Sample& sample) {
  std::sort(sample.cells.begin(), sample.cells.end(),
            [](const SampleCell& a, const SampleCell& b) { return a.column < b.column; });
}

// Reasons by kind, of which there are so many at most.
class Reasons {
 public:
  explicit Reasons(std::size_t most) : most_(most) {}

  void add(std::optional<std::size_t> column, std::string_view reason, std::uint64_t record) {
    const std::pair key(column, kind_of(reason));
    auto found = kinds_.find(key);
    if (found == kinds_.end()) {
      if (kinds_.size() >= most_) {
        ++others_;
        return;
      }
      const ErrorReport kind{column, beginning(reason, kLongestReason), record, 0};
      found = kinds_.emplace(key, kind).first;
    }
    ++found->second.count;
  }

  // The most frequent first.
  std::vector<ErrorReport> sorted() const {
    std::vector<ErrorReport> all;
    for (const auto& [key, kind] : kinds_) all.push_back(kind);
    std::stable_sort(all.begin(), all.end(),
                     [](const ErrorReport& a, const ErrorReport& b) { return a.count > b.count; });
    return all;
  }
  std::uint64_t others() const { return others_; }

 private:
  std::size_t most_;
  std::map<std::pair<std::optional<std::size_t>, std::string>, ErrorReport> kinds_;
  std::uint64_t others_ = 0;
};

// Of the record, and why it was dropped.
struct Drop {
  std::uint64_t record = 0;
  std::uint32_t column = 0;  // of the store
  std::string reason;
};

RubricReport& rubric_of(ColumnReport& column, const std::string& name) {
  for (RubricReport& rubric : column.rubrics) {
    if (rubric.name == name) return rubric;
  }
  RubricReport& rubric = column.rubrics.emplace_back();
  rubric.name = name;
  return rubric;
}

class Collector {
 public:
  Collector(std::vector<ColumnReport> columns, std::vector<std::size_t> place,
            const CollectOptions& options)
      : place_(std::move(place)),
        options_(options),
        errors_(options.most_errors),
        drops_(options.most_errors) {
    data_.columns = std::move(columns);
  }

  void take(const CellView& cell) {
    if (!started_ || cell.record != record_) {
      finish_record();
      started_ = true;
      record_ = cell.record;
      sampled_ = is_sample(record_);
    }
    if (cell.column >= place_.size()) return;
    const std::size_t place = place_[cell.column];
    ColumnReport& column = data_.columns[place];
    ++cells_;
    ++column.states[static_cast<std::size_t>(cell.state)];
    count_cost(cell.provenance, column);
    Json value;
    if (cell.state == CellState::kValue) {
      value = Json::parse(cell.json, nullptr, false);
      count_value(value, column);
    } else if (cell.state == CellState::kFailed || cell.state == CellState::kDropped) {
      if (column.info.type == kValidationType) ++column.not_passed;
      errors_.add(place, cell.json, cell.record);
      // Of several, the first column's is the record's.
      if (cell.state == CellState::kDropped && (!drop_ || cell.column < drop_->column)) {
        drop_ = Drop{record_, cell.column, std::string(cell.json)};
      }
    }
    if (options_.refusal) row_[column.info.name] = value;
    if (!sampled_) return;
    current_.cells.push_back(
        sample_of(place, cell.state, cell.json, std::move(value), options_.most_value));
  }

  ReportData finish() {
    finish_record();
    for (auto& [hash, sample] : samples_) data_.samples.push_back(std::move(sample));
    std::sort(data_.samples.begin(), data_.samples.end(),
              [](const Sample& a, const Sample& b) { return a.record < b.record; });
    data_.errors = errors_.sorted();
    data_.other_errors = errors_.others();
    data_.drops = drops_.sorted();
    data_.other_drops = drops_.others();
    if (options_.refusal) data_.accepted = accepted_;
    for (const ColumnReport& column : data_.columns) {
      data_.prompt_tokens += column.prompt_tokens;
      data_.completion_tokens += column.completion_tokens;
      data_.cost += column.cost;
    }
    return std::move(data_);
  }

  // Of the first dropped records, by record.
  const std::vector<Drop>& first_dropped() const { return first_dropped_; }

 private:
  bool is_sample(std::uint64_t record) const {
    return options_.samples > 0 &&
           (samples_.size() < options_.samples || mixed(record) < samples_.rbegin()->first);
  }

  void finish_record() {
    if (!started_) return;
    const bool whole = cells_ == place_.size();
    ++(drop_ ? data_.dropped : whole ? data_.finished : data_.open);
    if (drop_) {
      const std::size_t place = place_[drop_->column];
      ++data_.columns[place].records_dropped;
      dropped(place, *drop_);
    } else if (whole) {
      compare_to_target();
    }
    if (sampled_ && whole && !drop_) {
      current_.record = record_;
      sort_cells(current_);
      samples_.emplace(mixed(record_), std::move(current_));
      if (samples_.size() > options_.samples) samples_.erase(std::prev(samples_.end()));
    }
    current_ = {};
    row_ = Json::object();
    cells_ = 0;
    drop_.reset();
  }

  void dropped(std::optional<std::size_t> by, const Drop& drop) {
    drops_.add(by, drop.reason, drop.record);
    if (first_dropped_.size() < options_.dropped) first_dropped_.push_back(drop);
  }

  void compare_to_target() {
    if (!options_.refusal || accepted_ >= options_.target) return;
    const std::string reason = options_.refusal(row_);
    if (reason.empty()) {
      ++accepted_;
    } else {
      dropped(std::nullopt, {record_, 0, reason});
    }
  }

  static void count_cost(const Provenance& provenance, ColumnReport& column) {
    column.prompt_tokens += provenance.prompt_tokens;
    column.completion_tokens += provenance.completion_tokens;
    column.cost += provenance.cost;
    if (provenance.attempts == 0) return;
    ++column.asked;
    if (provenance.attempts > 1) ++column.retried;
    if (provenance.cut) ++column.cut;
    column.latency_us.add(provenance.latency_us);
    column.prompt_size.add(provenance.prompt_tokens / provenance.attempts);
    column.completion_size.add(provenance.completion_tokens / provenance.attempts);
    if (provenance.origin > 0) ++column.origins[provenance.origin];
  }

  static void count_value(const Json& value, ColumnReport& column) {
    if (column.info.type == kValidationType) {
      ++(is_passed(value) ? column.passed : column.not_passed);
    }
    if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      column.length.add(characters(text));
      column.texts.add(text);
    } else if (value.is_number() || value.is_boolean()) {
      if (value.is_number()) column.numbers.add(value.get<double>());
      column.texts.add(json_text(value));
    } else if (is_verdict(value)) {
      for (const auto& [name, verdict] : value.items()) {
        if (column.rubrics.size() >= kMostRubrics) break;
        RubricReport& rubric = rubric_of(column, name);
        const Json& score = verdict["score"];
        rubric.scores.add(json_text(score));
        if (!score.is_number()) continue;
        rubric.sum += score.get<double>();
        ++rubric.numbers;
      }
    }
  }

  std::vector<std::size_t> place_;  // in the report, by column of the store
  const CollectOptions& options_;
  ReportData data_;
  Reasons errors_, drops_;
  std::map<std::uint64_t, Sample> samples_;  // by hash: the greatest goes first
  std::vector<Drop> first_dropped_;
  std::uint64_t accepted_ = 0;

  bool started_ = false, sampled_ = false;
  std::uint64_t record_ = 0;
  // Of the record.
  std::size_t cells_ = 0;
  std::optional<Drop> drop_;
  Sample current_;
  Json row_ = Json::object();  // where the run has a target
};

// The cells of a dropped record; nothing where it is made anew meanwhile.
Result<std::optional<Sample>> dropped_sample(const Store& store, const Drop& drop,
                                             const std::vector<std::size_t>& place,
                                             std::size_t most) {
  const auto cells = store.read_record(drop.record);
  if (!cells) return fail(cells.error());
  if (cells->empty()) return std::optional<Sample>();
  Sample sample;
  sample.record = drop.record;
  sample.reason = beginning(drop.reason, kLongestReason);
  for (const CellResult& cell : *cells) {
    if (cell.column >= place.size()) continue;
    Json value;
    if (cell.state == CellState::kValue) value = Json::parse(cell.json, nullptr, false);
    sample.cells.push_back(
        sample_of(place[cell.column], cell.state, cell.json, std::move(value), most));
  }
  sort_cells(sample);
  return std::optional(std::move(sample));
}

}  // namespace

bool is_passed(const Json& value) {
  return value.is_object() && value.value("valid", Json()) == Json(true);
}

std::vector<ColumnInfo> column_infos(const PipelineSpec& spec) {
  std::vector<ColumnInfo> infos;
  for (const ColumnDescription& column : spec.columns) {
    ColumnInfo info{column.name, std::string(column.type()), "", {}};
    if (const std::string* model = column.model()) info.model = *model;
    if (const auto* judge = std::get_if<JudgeColumn>(&column.what)) {
      for (const Rubric& rubric : judge->rubrics) {
        RubricInfo& added = info.rubrics.emplace_back();
        added.name = rubric.name;
        for (const RubricOption& option : rubric.options) {
          added.options.push_back(json_text(option.score));
        }
      }
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

Result<ReportData> collect_report(const Store& store, std::span<const ColumnInfo> infos,
                                  const CollectOptions& options) {
  const auto stored = store.columns();
  if (!stored) return fail(stored.error());
  std::vector<ColumnReport> columns;
  std::map<std::string, std::size_t> by_name;
  const auto add = [&](ColumnInfo info) {
    by_name.emplace(info.name, columns.size());
    ColumnReport& column = columns.emplace_back();
    for (const RubricInfo& rubric : info.rubrics) {
      rubric_of(column, rubric.name).options = rubric.options;
    }
    column.info = std::move(info);
  };
  for (const ColumnInfo& info : infos) add(info);
  std::vector<std::size_t> place;
  for (const ColumnSpec& column : *stored) {
    if (!by_name.contains(column.name)) add({column.name, "", "", {}});
    place.push_back(by_name.at(column.name));
  }
  Collector collector(std::move(columns), place, options);
  const Status read = store.for_each_cell([&](const CellView& cell) {
    collector.take(cell);
    return true;
  });
  if (!read) return fail(read.error());
  ReportData data = collector.finish();
  for (const Drop& drop : collector.first_dropped()) {
    auto sample = dropped_sample(store, drop, place, options.most_value);
    if (!sample) return fail(std::move(sample.error()));
    if (*sample) data.first_dropped.push_back(**std::move(sample));
  }
  const auto origins = store.origins();
  if (!origins) return fail(origins.error());
  for (const Origin& origin : *origins) {
    data.origins.push_back({origin.model, fmt::format("{:016x}{:016x}", origin.parameters.high,
                                                      origin.parameters.low)});
  }
  return data;
}

std::string held_text(const EndpointReport& endpoint) {
  const Activity::Bucket total = endpoint.activity.total();
  const std::uint64_t held = total.by[static_cast<std::size_t>(SlotCause::kMaxParallel)];
  const std::uint64_t time = total.covered();
  if (held == 0 || 2 * held < time) return "";
  const std::string most =
      endpoint.max_parallel == 0 ? "" : fmt::format(" ({})", endpoint.max_parallel);
  // Whole percents, of which 100 means all of the time.
  const auto percent =
      static_cast<std::uint64_t>(100.0 * static_cast<double>(held) / static_cast<double>(time));
  return fmt::format("held by your max_parallel{} for {} % of the time", most, percent);
}

ProgressView progress_of(const ReportData& data) {
  ProgressView view;
  for (const ColumnReport& column : data.columns) {
    const auto state = [&](CellState s) { return column.states[static_cast<std::size_t>(s)]; };
    ColumnProgress& progress = view.columns.emplace_back();
    progress.name = column.info.name;
    progress.done = state(CellState::kValue);
    progress.failed = state(CellState::kFailed) + state(CellState::kDropped);
    progress.skipped = state(CellState::kSkipped);
    progress.total = data.records;
  }
  view.records_done = data.finished;
  view.records_dropped = data.dropped;
  view.records_total = data.records;
  view.elapsed = std::chrono::microseconds(static_cast<std::int64_t>(data.wall_us.value_or(0)));
  view.tokens_in = data.prompt_tokens;
  view.tokens_out = data.completion_tokens;
  view.cost = data.cost;
  return view;
}

}  // namespace dovetail::pipeline
