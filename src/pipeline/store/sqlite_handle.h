#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dovetail::pipeline {

// The last failure of a connection in words: the file, what happened and what to do. kExhausted,
// kIo and kUnavailable may pass by themselves; the other kinds do not.
Error sqlite_error(sqlite3* connection, int code);
Error sqlite_error(const std::string& file, int code, int system_error, std::string_view detail);
Error damaged(const std::string& file, std::string_view detail);

// A prepared statement. Bound bytes are not copied: they live until the statement is reset.
class Statement {
 public:
  Statement() = default;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  void bind(int index, std::int64_t value);
  void bind(int index, std::string_view bytes);
  // True: a row is there. At the end and after a failure the statement is reset.
  Result<bool> step();
  // For statements without rows.
  Status run();
  void reset() { sqlite3_reset(statement_.get()); }

  // Of the row that step() announced, until the next step.
  std::int64_t integer(int column) { return sqlite3_column_int64(statement_.get(), column); }
  std::string_view bytes(int column);

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// A connection to one file, used by one thread at a time. It outlives its statements.
class Connection {
 public:
  Connection() = default;
  // Flags as of sqlite3_open_v2(); `name` may be a URI.
  static Result<Connection> open(const std::string& name, const std::string& file, int flags);

  Status execute(const std::string& sql);
  Result<Statement> prepare(std::string_view sql);
  // The integer that a PRAGMA answers.
  Result<std::int64_t> number(const std::string& sql);

  sqlite3* get() const { return connection_.get(); }
  const std::string& file() const { return file_; }

 private:
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  };
  std::unique_ptr<sqlite3, Close> connection_;
  std::string file_;
};

}  // namespace dovetail::pipeline
