// Makes the dataset of a pipeline file with two column types of its own:
//
//   dovetail_library_example FILE FOLDER [--resume]
//
// Prints each record when it is finished and durable.

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dovetail/pipeline.h"

namespace {

using dovetail::ColumnCell;
using dovetail::ColumnFieldKind;
using dovetail::ColumnType;
using dovetail::Error;
using dovetail::ErrorKind;
using dovetail::Json;
using dovetail::OpenedColumn;
using dovetail::Result;

// The least number of bytes that are put in, taken out or replaced between two texts (Wagner and
// Fischer, "The String-to-String Correction Problem", 1974).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// `between`: two columns of texts.
ColumnType edit_distance_type() {
  ColumnType type;
  type.name = "edit-distance";
  type.version = "1";
  type.fields = {{"between", ColumnFieldKind::kColumns, true}};
  type.open = [](const Json& fields) -> Result<OpenedColumn> {
    const auto columns = fields["between"].get<std::vector<std::string>>();
    if (columns.size() != 2) {
      return dovetail::fail(ErrorKind::kInvalid, "/between: expected two columns, not {}",
                            columns.size());
    }
    OpenedColumn opened;
    opened.make = [columns](const ColumnCell& cell) -> Result<Json> {
      // What is no text throws, and that is this cell's failure.
      return Json(edit_distance(cell.row.at(columns[0]).get<std::string>(),
                                cell.row.at(columns[1]).get<std::string>()));
    };
    return opened;
  };
  return type;
}

// `text`, a template, with each letter replaced by another one with probability `rate`.
ColumnType typos_type() {
  ColumnType type;
  type.name = "typos";
  type.version = "1";
  type.fields = {{"text", ColumnFieldKind::kTemplate, true}, {"rate", ColumnFieldKind::kValue}};
  type.open = [](const Json& fields) -> Result<OpenedColumn> {
    const Json rate = fields.value("rate", Json(0.01));
    if (!rate.is_number() || rate < 0.0 || rate > 1.0) {
      return dovetail::fail(ErrorKind::kInvalid, "/rate: {} is no number from 0 to 1", rate.dump());
    }
    OpenedColumn opened;
    opened.make = [rate = rate.get<double>()](const ColumnCell& cell) -> Result<Json> {
      std::string text = cell.texts.at("text").get<std::string>();
      // The cell's seed makes the same value of it in every run, whatever goes on beside it. The
      // numbers of this generator are the same everywhere; those of distributions are not.
      std::mt19937_64 random(cell.seed);
      for (char& letter : text) {
        const bool is_wrong = static_cast<double>(random() >> 11) * 0x1.0p-53 < rate;
        const auto other = static_cast<char>('a' + random() % 26);
        if (is_wrong && letter >= 'a' && letter <= 'z') letter = other;
      }
      return Json(std::move(text));
    };
    return opened;
  };
  return type;
}

int complain(const Error& error) {
  std::cerr << error.message << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) {
    std::cerr << "dovetail_library_example FILE FOLDER [--resume]\n";
    return 2;
  }
  const auto pipeline = dovetail::Pipeline::read(
      arguments[0], {.column_types = {edit_distance_type(), typos_type()}});
  if (!pipeline) return complain(pipeline.error());

  dovetail::PipelineRunOptions options;
  options.output = arguments[1];
  options.resume = arguments.size() > 2 && arguments[2] == "--resume";
  options.on_record = [](const dovetail::PipelineRecord& record) -> dovetail::Status {
    std::cout << record.record << ' ' << record.row.dump() << '\n';
    return {};
  };
  const auto summary = pipeline->run(options);
  if (!summary) return complain(summary.error());
  for (const dovetail::PipelineFigure& figure : summary->figures) {
    std::cerr << figure.name << ": " << figure.hits << " of " << figure.of << '\n';
  }
  std::cerr << summary->state.finished << " records in " << summary->results.string() << '\n';
  return summary->end == dovetail::PipelineEnd::kComplete ? 0 : 1;
}
