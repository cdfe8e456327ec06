#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <variant>

#include "base/result.h"

namespace dovetail::pipeline {

// A run in a PostgreSQL database: one of several there, in a schema of its own.
struct PostgresPlace {
  std::string connection;  // as libpq takes it; may hold a password and is never shown
  std::string password;    // to be taken out of what others say
  std::string shown;       // for messages: the server, the database, the run
  std::string run;
  std::string schema;
  std::chrono::milliseconds silence{20'000};  // see StoreOptions
};

using Place = std::variant<std::filesystem::path, PostgresPlace>;

// `where` is the path of a file or a connection string, which begins with "postgresql://" or
// "postgres://". The latter needs a run's name: up to 48 letters, digits, '_', '-' or '.'. No error
// repeats a connection string.
Result<Place> parse_place(const std::string& where, const std::string& run_name);

// A place as messages may show it: a connection string without user, password and options.
std::string shown_place(const std::string& where);

}  // namespace dovetail::pipeline
