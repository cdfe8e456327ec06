#pragma once

#include <cstdint>
#include <string>

namespace dovetail::pipeline {

// Ends the program with a line.
[[noreturn]] void die(const std::string& message);
// Says that a cell is finished.
void tell(std::uint64_t cell);

// A worker of a shared run with so many records: makes what is not there until all is complete.
int work(const std::string& where, std::uint64_t records, const std::string& run);

// 0, or 1 and a line about what should not have happened.
// A worker that did not renew its lease comes back after another one got it.
int use_stale_lease(const std::string& where, const std::string& run);
// Several take ranges at once.
int contend(const std::string& where, const std::string& run);
// Who does not renew loses its range, who does keeps it.
int let_expire(const std::string& where, const std::string& run);
// One is stopped in the middle of a commit, and others get its range nevertheless.
int fall_silent(const std::string& where, const std::string& run);

}  // namespace dovetail::pipeline
