#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "pipeline/sample/condition.h"

namespace dovetail::pipeline {

enum class SeedFormat {
  kCsv,    // a header line, then records (RFC 4180)
  kJsonl,  // an object on each line
  kFiles,  // a record for each file: path, name, content, size
};

enum class SeedType { kString, kInt, kFloat, kBool };

// Where rows come from and which of them, in which order, make up the seed.
struct SeedSpec {
  std::string path;  // a file, a folder (all files below it) or a pattern (glob.h)
  SeedFormat format = SeedFormat::kCsv;
  char delimiter = ',';
  // Whether columns of CSV whose values are all numbers, or all true or false, become such; an
  // empty field is null there. `types` decides for single columns.
  bool infer_types = true;
  std::vector<std::pair<std::string, SeedType>> types;
  std::vector<std::string> columns;  // those that row() returns, in this order; empty: all
  bool content = true;               // whether files are read

  // In this order: the rows that the filter lets through, of these a range or a part, these
  // shuffled.
  std::optional<Condition> filter;
  std::uint64_t start = 0;
  std::optional<std::uint64_t> end;   // behind the last row
  std::uint64_t part = 0, parts = 1;  // part of parts of about the same size
  bool shuffled = false;
  bool wrap = false;  // whether rows come again (shuffled anew) when all have been used
};

// Keys: path, [format] (csv, jsonl, files; by the path's ending if left out), [delimiter],
// [infer_types], [types] (column -> str, int, float, bool), [columns], [content], [filter] (an
// expression), [range] ({start, end}), [partition] ({index, of}), [order] (ordered, shuffled),
// [wrap].
Result<SeedSpec> parse_seed(const nlohmann::ordered_json& given, std::string_view pointer);

}  // namespace dovetail::pipeline
