#pragma once

#include <filesystem>
#include <random>

namespace dovetail::pipeline {

// Makes SQLite's default file system one that remembers, of every database and log, what has been
// synced and what has been written since. Call once, before the first connection.
void watch_power();

// Writes into `folder` what a cut of power at this moment might leave of the files: all that was
// synced, and of every later write all, nothing or its first half.
void cut_power(const std::filesystem::path& folder, std::mt19937_64& random);

}  // namespace dovetail::pipeline
