#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "pipeline/report/terminal_text.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

struct PreviewCell {
  std::string name;
  CellState state = CellState::kValue;
  Json value;          // of kValue
  std::string reason;  // of the others
};

// A record for people: a head line, then every column's name beside its value, which is wrapped to
// the terminal and ends after `most_lines` lines. Texts are shown as they are, without quotes; what
// a judge says as a line per rubric with its score, and the reasoning below it; other values as
// JSON. Each line ends in a line end. On terminals narrower than 40, values stand below the names.
std::string preview(std::uint64_t record, const std::vector<PreviewCell>& cells,
                    const TerminalStyle& style, std::size_t most_lines = 24);

// Whether it is {RUBRIC: {"score": ...}, ...}.
bool is_verdict(const Json& value);

}  // namespace dovetail::pipeline
