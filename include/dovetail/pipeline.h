#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dovetail/column_type.h"

namespace dovetail {

struct PipelineReadOptions {
  std::optional<std::uint64_t> records = std::nullopt;  // instead of what the file says
  std::vector<ColumnType> column_types = {};  // that columns may have beside the built-in ones
};

struct PipelineColumn {
  std::string name;
  std::string type;   // as the file calls it; "seed" for a field of the seed's data
  std::string model;  // alias; empty: no model makes it
  std::vector<std::string> needs;
  bool dropped = false;  // not in the results
};

// A record all of whose cells are durable.
struct PipelineRecord {
  std::uint64_t record = 0;  // its number, from 0
  // The columns of the results; null for what was skipped or has failed. Behind a text that a model
  // wrote stands NAME_cut: whether it was ended by its limit of tokens.
  const Json& row;
  std::string_view reason;  // why it was dropped, or not accepted; empty: it is in the results
};

// Cells of a column, in the order of Pipeline::columns().
struct PipelineColumnCounts {
  std::uint64_t values = 0, skipped = 0, failed = 0;  // of this run, and of those it resumes
  std::uint64_t in_flight = 0;                        // being made
};

struct PipelineState {
  std::uint64_t records = 0;  // in all; with a target, the most that are tried
  std::uint64_t finished = 0, dropped = 0;
  std::vector<PipelineColumnCounts> columns;
  std::uint64_t prompt_tokens = 0, completion_tokens = 0;  // of this run
  double cost = 0.0;  // of this run and those it resumes, by the models' prices
};

enum class PipelineStop : std::uint8_t {
  kNone,
  kFinish,  // nothing more is begun; what is under way is kept
  kNow,     // answers under way are given up, own makers are waited for; it can be resumed
};

enum class PipelineFormat : std::uint8_t { kJsonLines, kCsv };

struct PipelineRunOptions {
  // Has the files of a run: results.jsonl or results.csv, dropped.jsonl, report.html, run.db. Made
  // where it is not there. Empty: the pipeline's name.
  std::filesystem::path output;
  // Where finished cells are kept, instead of run.db: a file, or postgresql://..., where the
  // pipeline's name tells its runs from others.
  std::string database;
  // Goes on with the run that is there, else there must be none. Columns of which the file, or an
  // own type's version, says something else now are made anew, and so are those that need them.
  bool resume = false;
  bool retry_failed = false;  // with resume: cells that have failed are made again
  PipelineFormat format = PipelineFormat::kJsonLines;
  bool report = true;
  // Records are written and told as they finish, not in the order of their numbers; kInvalid with
  // a target.
  bool unordered = false;

  // May be empty; all but on_waiting are called on the thread of run(). What they throw ends the
  // run with an error, and so does an error of on_record. Each record once, in the order of their
  // numbers, when it is in the files. A resumed run begins with the first one again.
  std::function<Status(const PipelineRecord&)> on_record;
  std::function<void(const PipelineState&)> on_progress;  // ten times a second, and at the end
  std::function<PipelineStop()> stop;                     // asked all the time: returns at once
  // On another thread: finished cells cannot be kept for now (a full disk, a database that is
  // away), which is tried again for a minute.
  std::function<void(const Error&)> on_waiting;
};

enum class PipelineEnd : std::uint8_t {
  kComplete,
  kStopped,       // PipelineRunOptions::stop said so
  kErrors,        // limits.errors of the file
  kCost,          // limits.cost
  kTargetMissed,  // target_accepted: all candidates have been tried
};

// A figure of the file: of so many records, those for which it says true.
struct PipelineFigure {
  std::string name;
  std::uint64_t hits = 0, of = 0;
};

struct PipelineSummary {
  PipelineEnd end = PipelineEnd::kComplete;
  std::string why;  // the run ended early
  PipelineState state;
  std::vector<PipelineFigure> figures;
  std::chrono::microseconds elapsed{};  // of the runs that it resumes, too
  std::vector<std::string> remade;      // columns that were not as in the run it resumes
  std::filesystem::path results, dropped, report;
};

// A pipeline file that has been read: docs/pipelines.md. Immutable; all member functions may be
// called from any thread.
class Pipeline {
 public:
  // Reads a file, and the names of its seed data's columns. kInvalid: a message with a line for
  // each mistake, with the line and column where it stands; also an own type with the name of a
  // built-in one.
  static Result<Pipeline> read(const std::filesystem::path& file, PipelineReadOptions options = {});

  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  const std::string& name() const;
  std::uint64_t records() const;
  const std::vector<PipelineColumn>& columns() const;  // each behind those it needs

  // Makes the dataset, or goes on with it, and returns when it has ended: every cell as soon as
  // what it needs is there. Models are loaded at its beginning. After an error, too, it can be
  // resumed. One run at a time per output.
  Result<PipelineSummary> run(const PipelineRunOptions& options) const;

  // How far a run is, also while another process works on it: `output` and `database` as there.
  // Records and costs are not told.
  Result<std::vector<PipelineColumnCounts>> counts(const PipelineRunOptions& options) const;

 private:
  struct Impl;
  explicit Pipeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dovetail
