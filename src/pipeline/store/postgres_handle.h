#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pipeline/store/place.h"

namespace dovetail::pipeline {

Error damaged(const PostgresPlace& place, std::string_view detail);

// The parameters of a statement, in their order, in the binary format. Bytes are not copied.
class PgParams {
 public:
  PgParams& integer(std::int64_t value);
  PgParams& bytes(std::string_view value);
  PgParams& text(std::string_view value);
  PgParams& integers(std::span<const std::int64_t> values);
  PgParams& byte_strings(std::span<const std::string_view> values);

 private:
  friend class PgConnection;
  void add(Oid type, std::string_view value);
  std::deque<std::string> made_;
  std::vector<Oid> types_;
  std::vector<const char*> values_;
  std::vector<int> sizes_;
  std::vector<int> formats_;
};

// The rows that a statement answered.
class PgRows {
 public:
  PgRows() = default;
  explicit PgRows(PGresult* result) : result_(result) {}

  int count() const { return PQntuples(result_.get()); }
  // Rows that a statement without answers changed.
  std::uint64_t changed() const;
  // Of a bigint, integer, smallint or boolean column.
  std::int64_t integer(int row, int column) const;
  // Until this object goes.
  std::string_view bytes(int row, int column) const;
  bool is_null(int row, int column) const { return PQgetisnull(result_.get(), row, column) != 0; }

 private:
  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  std::unique_ptr<PGresult, Clear> result_;
};

// A connection to the server, whose unqualified names are those of the run's schema. One thread at
// a time. Errors: kUnavailable (the server is not there, or something that passes by itself),
// kExhausted (its disk or memory), kIo, and others that do not pass. They never hold the password.
class PgConnection {
 public:
  PgConnection() = default;
  static Result<PgConnection> open(const PostgresPlace& place);

  // False once the connection is lost: nothing works on it any more.
  bool good() const { return connection_ && PQstatus(connection_.get()) == CONNECTION_OK; }

  Result<PgRows> run(const char* statement, const PgParams& params = {});
  // Without parameters; several statements may stand in one text.
  Status execute(const std::string& statements);
  // Hands out row by row what a statement answers, in little memory, until `row` says false; then
  // and after an error the connection is closed.
  Status stream(const char* statement, const std::function<Result<bool>(const PgRows&)>& row);
  // What `work` does, at once or not at all.
  template <class Work>
  Status transaction(const char* begin, Work&& work) {
    if (auto ok = execute(begin); !ok) return ok;
    Status status = work();
    if (status) status = execute("COMMIT");
    if (!status && good() && PQtransactionStatus(connection_.get()) != PQTRANS_IDLE) {
      (void)execute("ROLLBACK");
    }
    return status;
  }

 private:
  Error error(const PGresult* result) const;

  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  std::unique_ptr<PGconn, Finish> connection_;
  std::shared_ptr<const PostgresPlace> place_;
};

// "process 12 on host h": how a connection introduces itself to the server.
std::string process_name();

}  // namespace dovetail::pipeline
