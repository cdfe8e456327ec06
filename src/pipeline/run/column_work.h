#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "pipeline/config/pipeline_spec.h"
#include "pipeline/run/model_client.h"
#include "pipeline/store/cell.h"

namespace dovetail::pipeline {

// What single columns do with a record. `row` is an object that holds the columns they need. All
// may be called from several threads at once.

// Whether skip_if says so. Errors are the template's.
Result<bool> is_skipped(const ColumnDescription& column, const Json& row);

// Whether the record counts towards the target.
Result<bool> is_accepted(const TargetSpec& target, const Json& row);
// Why it is dropped, where it does not; else empty.
std::string refusal(const TargetSpec& target, const Json& row);

// Whether a record is of the share that the figure is; nothing: it does not count.
std::optional<bool> counts_for(const FigureSpec& figure, const Json& row);

Result<Json> evaluate(const ExpressionColumn& column, const Json& row);

// {"valid": ..., "reason": ...}. Errors: the value cannot be judged, or, where the column requires
// it, is not valid. A command is waited for: see ColumnDescription::blocks().
Result<Json> evaluate(const ValidationColumn& column, const Json& row);

// What the program's code makes of the columns that it needs, of which the rest of the row is kept.
// Errors: its own, what it throws, and a value that JSON text cannot hold.
Result<Json> evaluate(const OwnColumn& column, const Json& row, RecordId record,
                      std::uint64_t seed);

// The value of a column that neither a model makes nor chance or the seed's data. `seed` is the
// cell's.
Result<Json> evaluate(const ColumnDescription& column, const Json& row, RecordId record,
                      std::uint64_t seed);

// An attempt at a cell that came to nothing.
struct FailedAttempt {
  // What the model said, where that is what was wrong; nothing where there was no answer.
  std::optional<std::string> answer;
  std::string error;
  Provenance cost = {};  // of this attempt alone
};

// Whether a model is asked once more for a cell after these attempts, in their order: for each of
// 1 + retries fresh answers there are up to so many corrections of it.
bool may_ask_again(const ColumnDescription& column, std::span<const FailedAttempt> failed);

// The JSON schema that a column's answers are to be instances of; null: any text.
const Json* answer_schema(const ColumnDescription& column);
// What a model in this process is held to beside; without a regular expression: to nothing.
AnswerPattern answer_pattern(const ColumnDescription& column);

// The question for a column that a model makes: a fresh one, or, where the last attempts are to be
// corrected, one that goes on with these answers and what is wrong with them.
Result<ModelRequest> make_request(const ColumnDescription& column, const Json& row,
                                  std::uint64_t seed, std::span<const FailedAttempt> failed = {});

// What the answer means. kInvalid: it is not what the column wants, and another might be.
Result<Json> read_answer(const ColumnDescription& column, const ModelAnswer& answer);

}  // namespace dovetail::pipeline
