#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/sample/seed_spec.h"

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

// Which types the fields of one CSV column fit, as they come in.
class TypeGuess {
 public:
  void see(const std::string& field);
  // Integers have no leading zero and fit 64 bits; numbers are written as in JSON; truth is true,
  // True or TRUE. A column of empty fields holds strings.
  SeedType type() const;

 private:
  bool seen_ = false;
  bool int_ = true, number_ = true, truth_ = true;
};

// A field as a value of the type: null where it is empty (but for strings), nothing where it does
// not fit.
std::optional<nlohmann::ordered_json> typed_field(const std::string& field, SeedType type);

}  // namespace dovetail::pipeline
