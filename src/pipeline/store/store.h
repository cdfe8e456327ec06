#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/cell.h"
#include "pipeline/store/open_mode.h"
#include "pipeline/store/reconciliation.h"

namespace dovetail::pipeline {

struct Sharing;

struct StoreOptions {
  // Names a run in a PostgreSQL database, which may hold several: up to 48 letters, digits, '_',
  // '-' or '.'. A run in a file is named by the file.
  std::string run_name;
  // What may wait for the writer: about this many bytes, and as many again in the transaction under
  // way.
  std::size_t queue_bytes = std::size_t{32} << 20;
  // From the beginning of one commit to the next, so that what comes meanwhile shares it; less
  // where somebody waits: in flush(), for room, or by hurry().
  std::chrono::milliseconds commit_every{40};
  // From one response of remember_later() to the commit that takes it and all that came meanwhile.
  std::chrono::milliseconds responses_every{250};
  // How long a commit is tried again (disk full, locked, a database that cannot be reached) before
  // all that wait get the error. Questions to a database that cannot be reached wait as long.
  std::chrono::milliseconds retry_for{60'000};
  // A database server ends a transaction in which this process says nothing for so long (it is
  // stopped, or cut off), so that others who share the run need not wait for it.
  std::chrono::milliseconds silence{20'000};
  // Responses kept in the cache, give or take a sixteenth; the oldest go first.
  std::uint64_t cache_bytes = std::uint64_t{4} << 30;
  // Told once when commits begin to fail and are tried again; on the writer's thread.
  std::function<void(const Error&)> on_waiting;
};

// The durable state of a dataset run: its finished cells, its columns, a cache of responses.
// A cell counts as finished when `done` has been called with success: from then on it survives
// kill -9 and loss of power. Any thread may call any function, except reconcile(), which comes
// before the first put().
class Store {
 public:
  // `where` is the path of an SQLite database, or a connection string of PostgreSQL that begins
  // with postgresql:// or postgres://, which no message repeats. Errors say what is there and what
  // to do: kNotFound, kInvalid (a run where there should be none, no database, a damaged one),
  // kUnavailable (another process works on the run, and is named; a server that cannot be reached),
  // kUnsupported (a newer version; sharing a file), kIo. With kShare, cells are taken under leases
  // (lease.h).
  static Result<std::unique_ptr<Store>> open(const std::string& where, OpenMode mode,
                                             StoreOptions options = {});
  // Commits what is queued; commits that fail now are not waited for any longer.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // The columns of the run from now on. Cells of columns that are not named any more, and of those
  // with another fingerprint, are deleted in the same transaction; the caller has put into a
  // fingerprint whatever the column depends on. A column that was renamed is a removed one and an
  // added one. compare() tells the same and changes nothing. Where processes share a run, the first
  // one may change its columns; others join with the same ones, else kUnavailable.
  Result<Reconciliation> reconcile(std::span<const ColumnSpec> columns);
  Result<Reconciliation> compare(std::span<const ColumnSpec> columns) const;
  Result<std::vector<ColumnSpec>> columns() const;

  // Hands over finished cells; best all that a record has ready, in the order of the columns.
  // Blocks while the queue is full (never on the writer's thread, so `done` may put more). A cell
  // that is there already is replaced. `done` is called once, on the writer's thread, in the order
  // of the puts, when all these cells are durable or have been refused; it must not block or throw,
  // and may be empty.
  void put(std::span<const CellResult> cells, std::function<void(Status)> done);
  void put(const CellResult& cell, std::function<void(Status)> done) {
    put(std::span(&cell, 1), std::move(done));
  }
  // Waits until everything put before is durable, and its `done` has been called.
  Status flush();
  // Has what is queued committed at once, and waits for nothing: for callers that have nothing else
  // to do until then.
  void hurry();

  // The number of an origin for Provenance, the same for equal ones, also where processes share a
  // run. New ones are written at once, and waited for as a commit is; where that is in vain it is
  // 0, and everything put from then on gets the error.
  std::uint32_t origin(const Origin& origin);
  // Origin n is at index n - 1.
  Result<std::vector<Origin>> origins() const;

  // All durable cells by record, then column, as of one moment, in bounded memory; ends early where
  // `cell` returns false. A damaged or incomplete file and a server that is gone are errors,
  // possibly after some cells.
  Status for_each_cell(const std::function<bool(const CellView&)>& cell) const;
  // The durable cells of a record by column.
  Result<std::vector<CellResult>> read_record(std::uint64_t record) const;
  // Those of records [first, end), by record, then column.
  Result<std::vector<CellResult>> read_records(std::uint64_t first, std::uint64_t end) const;
  // By column, then state. Reads the whole run.
  Result<std::vector<std::array<std::uint64_t, kCellStates>>> counts() const;

  // A response that was remembered under this key, once it is durable. The caller puts into the key
  // all that the response depends on.
  Result<std::optional<std::string>> cached(const Hash128& key) const;
  // Queued like a cell; what a later put() of the caller waits for includes it. The first response
  // under a key stays. One that could not be written is not cached, which is no error.
  void remember(const Hash128& key, std::string json);
  // The same for a response whose cell holds all that it was paid for: durable a moment later
  // (StoreOptions::responses_every), or with the next flush(). A commit with many responses costs
  // little more than one with a few, since their keys lie all over the index.
  void remember_later(const Hash128& key, std::string json);

  // Adds to what the run has spent, in 1e-9 of the currency; queued like a cell. Nothing takes it
  // away again. After a connection was lost in a commit, what was in it may count twice.
  void spend(std::uint64_t amount);
  // As far as it is durable, by all who ever worked on the run.
  Result<std::uint64_t> spent() const;
  // The same as of this process's last commit that cost something; 0 before the first. Asks nobody.
  std::uint64_t known_spent() const;

  // Small facts about the run (the text of its file, its seed), durable on return.
  Status set_property(std::string_view name, std::string_view value);
  Result<std::optional<std::string>> property(std::string_view name) const;

 private:
  friend class Leases;
  // Null where the run is not shared.
  const Sharing* sharing() const;

  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dovetail::pipeline
