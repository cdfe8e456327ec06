#include "pipeline/sample/seed_spec.h"

#include <array>
#include <nlohmann/json.hpp>

#include "pipeline/sample/fields.h"
#include "pipeline/sample/glob.h"

namespace dovetail::pipeline {
namespace {

using namespace std::string_view_literals;
using nlohmann::ordered_json;

constexpr std::array kFormats = {"csv"sv, "jsonl"sv, "files"sv};
constexpr std::array kOrders = {"ordered"sv, "shuffled"sv};
constexpr std::array kTypes = {"str"sv, "int"sv, "float"sv, "bool"sv};
constexpr std::int64_t kMostRows = INT64_MAX;

std::optional<SeedFormat> format_of(std::string_view path) {
  if (path.ends_with(".csv") || path.ends_with(".tsv")) return SeedFormat::kCsv;
  if (path.ends_with(".jsonl") || path.ends_with(".ndjson")) return SeedFormat::kJsonl;
  const auto name = path.substr(path.find_last_of('/') + 1);
  // A folder, or a pattern for the names of files of another kind.
  if (has_wildcards(path) || name.find('.') == std::string_view::npos || path.ends_with('/')) {
    return SeedFormat::kFiles;
  }
  return std::nullopt;
}

void read_range(Fields& fields, const ordered_json& given, SeedSpec& spec) {
  Fields range(given, fields.at("range"));
  spec.start = static_cast<std::uint64_t>(range.integer("start", 0, kMostRows).value_or(0));
  if (const auto end = range.integer("end", 1, kMostRows)) {
    spec.end = static_cast<std::uint64_t>(*end);
    if (range.ok() && *spec.end <= spec.start) {
      range.reject("end",
                   fmt::format("more than start, {} (the row of end is left out)", spec.start));
    }
  }
  fields.take("range", range.finish());
}

void read_partition(Fields& fields, const ordered_json& given, SeedSpec& spec) {
  Fields partition(given, fields.at("partition"));
  spec.parts = static_cast<std::uint64_t>(partition.required_integer("of", 1, 1'000'000));
  spec.part = static_cast<std::uint64_t>(partition.required_integer("index", 0, 999'999));
  if (partition.ok() && spec.part >= spec.parts) {
    partition.reject("index", fmt::format("an integer from 0 to {}", spec.parts - 1));
  }
  fields.take("partition", partition.finish());
}

void read_types(Fields& fields, const ordered_json& given, SeedSpec& spec) {
  if (!given.is_object()) return fields.reject("types", "an object: column -> type");
  Fields types(given, fields.at("types"));
  for (const auto& [column, type] : given.items()) {
    spec.types.emplace_back(column, static_cast<SeedType>(types.required_choice(column, kTypes)));
  }
  fields.take("types", types.finish());
}

}  // namespace

Result<SeedSpec> parse_seed(const ordered_json& given, std::string_view pointer) {
  SeedSpec spec;
  Fields fields(given, std::string(pointer));
  spec.path = fields.required_text("path", "a file, a folder or a pattern such as data/*.csv");
  const auto format = fields.choice("format", kFormats);
  if (format) {
    spec.format = static_cast<SeedFormat>(*format);
  } else if (const auto known = format_of(spec.path)) {
    spec.format = *known;
  } else if (!fields.failed("format")) {
    fields.reject("path",
                  "a path that ends in .csv, .tsv, .jsonl or .ndjson, or a format (csv, jsonl, "
                  "files) next to it");
  }
  const auto delimiter = fields.text("delimiter");
  if (delimiter) {
    const bool fits = delimiter->size() == 1 && *delimiter != "\"" && *delimiter != "\n" &&
                      *delimiter != "\r" && static_cast<signed char>(delimiter->front()) > 0;
    if (fits) {
      spec.delimiter = delimiter->front();
    } else {
      fields.reject("delimiter", "one ASCII character that is no quote and no line end");
    }
  } else if (spec.path.ends_with(".tsv")) {
    spec.delimiter = '\t';
  }
  spec.infer_types = fields.flag("infer_types").value_or(true);
  if (const auto* types = fields.find("types")) read_types(fields, *types, spec);
  spec.columns = fields.list("columns");
  spec.content = fields.flag("content").value_or(true);
  if (const auto filter = fields.text("filter")) {
    auto condition = Condition::parse(*filter, fields.at("filter"));
    if (condition) {
      spec.filter = *std::move(condition);
    } else {
      fields.take("filter", condition.error());
    }
  }
  const ordered_json* range = fields.find("range");
  if (range != nullptr) read_range(fields, *range, spec);
  if (const auto* partition = fields.find("partition")) {
    if (range != nullptr) fields.reject("partition", "only one of range and partition");
    read_partition(fields, *partition, spec);
  }
  spec.shuffled = fields.choice("order", kOrders).value_or(0) == 1;
  spec.wrap = fields.flag("wrap").value_or(false);
  if (fields.ok() && spec.format != SeedFormat::kCsv) {
    if (delimiter) fields.reject("delimiter", "csv files only");
    if (!spec.types.empty()) fields.reject("types", "csv files only");
  }
  if (const Status status = fields.finish(); !status) return fail(status.error());
  return spec;
}

}  // namespace dovetail::pipeline
