#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dovetail::pipeline {

// One record of comma-separated values (RFC 4180): fields may be quoted, a quoted one may hold
// delimiters, line ends and doubled quotes; lines end in LF or CRLF. Stricter than many readers: a
// quote inside of an unquoted field, text behind a closing quote and a CR without LF are errors,
// since each of them tells of a file that would be misread.
struct CsvRecord {
  enum class State {
    kComplete,
    kNeedsMore,  // the record does not end within the text, and the file goes on
    kEmpty,      // a blank line
    kError,
  };
  State state = State::kComplete;
  std::size_t consumed = 0;  // bytes with the line end (kComplete, kEmpty)
  std::vector<std::string> fields;
  std::string error;
  std::size_t error_at = 0;  // offset in the text
};

// Reads the record that `text` starts with. `last`: the file ends where the text does.
void parse_csv_record(std::string_view text, char delimiter, bool last, CsvRecord& out);

}  // namespace dovetail::pipeline
