#include "pipeline/results/results_writer.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "pipeline/results/result_line.h"

namespace dovetail::pipeline {

Result<ResultsFormat> results_format(const std::filesystem::path& file) {
  std::string suffix = file.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (suffix == ".csv") return ResultsFormat::kCsv;
  if (suffix == ".jsonl" || suffix == ".ndjson" || suffix == ".json") {
    return ResultsFormat::kJsonLines;
  }
  return fail(ErrorKind::kInvalid,
              "{}: the suffix \"{}\" names no format of results; .jsonl, .ndjson and .json are "
              "JSON lines, .csv is CSV",
              file.string(), suffix);
}

Result<ResultsWriter> ResultsWriter::open(ResultsOptions options) {
  if (!options.format) {
    const auto format = results_format(options.file);
    if (!format) return fail(format.error());
    options.format = *format;
  }
  const ResultsFormat format = *options.format;
  if (options.dropped_file == options.file) {
    return fail(ErrorKind::kInvalid,
                "{}: dropped records cannot go to the file of the results; name another",
                options.file.string());
  }
  const auto ends = format == ResultsFormat::kCsv ? LineEnds::kOutsideQuotes : LineEnds::kEvery;
  auto file =
      options.resume ? LineFile::reopen(options.file, ends) : LineFile::create(options.file);
  if (!file) return fail(file.error());
  ResultsWriter writer(std::move(options), format, *std::move(file));
  // A run must not find out hours later that it cannot write what was dropped.
  if (!writer.options_.dropped_file.empty()) {
    std::error_code unknown;
    const bool there = std::filesystem::exists(writer.options_.dropped_file, unknown);
    if (const Status ok = writer.open_dropped(); !ok) return fail(ok.error());
    if (!there) {
      writer.dropped_file_.reset();
      std::filesystem::remove(writer.options_.dropped_file, unknown);
    }
  }
  if (format == ResultsFormat::kCsv) {
    std::string header;
    append_csv_header(writer.options_.columns, header);
    if (const Status ok = writer.file_.append(header); !ok) return fail(ok.error());
    if (const Status ok = writer.write(); !ok) return fail(ok.error());
  }
  return writer;
}

Status ResultsWriter::open_dropped() {
  auto file = options_.resume ? LineFile::reopen(options_.dropped_file, LineEnds::kEvery)
                              : LineFile::create(options_.dropped_file);
  if (!file) return fail(file.error());
  dropped_file_ = *std::move(file);
  return {};
}

Status ResultsWriter::add(std::uint64_t record, const Json& row, std::string_view reason) {
  line_.clear();
  if (reason.empty()) {
    format_ == ResultsFormat::kCsv ? append_csv_line(row, options_.columns, line_)
                                   : append_json_line(row, line_);
    if (const Status ok = file_.append(line_); !ok) return ok;
    ++accepted_;
    return {};
  }
  if (!options_.dropped_file.empty()) {
    if (!dropped_file_) {
      if (const Status ok = open_dropped(); !ok) return ok;
    }
    append_dropped_line(record, reason, row, line_);
    if (const Status ok = dropped_file_->append(line_); !ok) return ok;
  }
  ++dropped_;
  return {};
}

Status ResultsWriter::write() {
  if (const Status ok = file_.write(); !ok) return ok;
  return dropped_file_ ? dropped_file_->write() : Status();
}

Status ResultsWriter::sync() {
  if (const Status ok = file_.sync(); !ok) return ok;
  return dropped_file_ ? dropped_file_->sync() : Status();
}

Status ResultsWriter::finish() {
  if (const Status ok = file_.cut(); !ok) return ok;
  if (dropped_file_) {
    if (const Status ok = dropped_file_->cut(); !ok) return ok;
  }
  if (const Status ok = sync(); !ok) return ok;
  // None was dropped now, whatever an earlier run of this file has thought.
  if (dropped_file_ && dropped_file_->size() == 0) {
    dropped_file_.reset();
    std::error_code gone;
    std::filesystem::remove(options_.dropped_file, gone);
  }
  return {};
}

}  // namespace dovetail::pipeline
