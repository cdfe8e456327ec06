#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace dovetail {

// A cell that is to be made. What it refers to lives until make() returns.
struct ColumnCell {
  std::uint64_t record = 0;  // its number, from 0
  // For whatever is random in it: a function of the run's seed, the column's name and the record.
  std::uint64_t seed = 0;
  // The columns that it needs, by name, and no others; null for what was skipped or has failed.
  const Json& row;
  // What the fields that are templates come to for this record, by field.
  const Json& texts;
};

// Makes a value. The same cell must give the same value, or the dataset depends on when it was
// made. An error's message is the cell's failure, and so is what is thrown; the column's
// `on_failure` decides what that means. A value must be what JSON text can hold: finite numbers and
// UTF-8.
using ColumnMaker = std::function<Result<Json>(const ColumnCell& cell)>;

// A column that the maker needs although no field of kind kColumn, kColumns or kTemplate names it.
struct ColumnNeed {
  std::string column;
  std::string field;  // by which it came; where the file is to blame if there is no such column
};

// One column of an own type, as the file has it.
struct OpenedColumn {
  // Called from several threads at once; lives as long as the pipeline and its runs.
  ColumnMaker make;
  std::vector<ColumnNeed> needs;
  // make() may take longer than a fraction of a millisecond: cells are made on other threads, two
  // for each core. Without it they are made by the thread that gives models their work.
  bool blocks = false;
};

enum class ColumnFieldKind : std::uint8_t {
  kValue,     // anything; for open() to read
  kColumn,    // the name of a column, which is needed
  kColumns,   // a list of such names
  kTemplate,  // a text with {{ columns }}, which are needed; rendered in ColumnCell::texts
};

struct ColumnField {
  std::string name;
  ColumnFieldKind kind = ColumnFieldKind::kValue;
  bool required = false;
};

// A type of columns that a program adds to those of pipeline files. Its columns are like all
// others: they have the keys `name`, `type`, `skip_if`, `propagate_skip`, `drop`, `priority` and
// `on_failure`, are made when what they need is there, kept, and made anew when the file says
// something else of them or of what they need.
struct ColumnType {
  std::string name;  // as `type` says it in files: letters, digits, - and _; not a built-in one's
  // Changes when the same fields and row come to another value: then a resumed run makes it anew.
  std::string version;
  std::vector<ColumnField> fields;  // what it has beside the keys of all columns
  // Called for each column of the type when a file is read, with its fields as the file has them
  // (those that are not there, or null, are left out). An error, or what is thrown, is told with
  // the column's place in the file, or the place of the field `f` where the message begins with
  // "/f: ".
  std::function<Result<OpenedColumn>(const Json& fields)> open;
};

}  // namespace dovetail
