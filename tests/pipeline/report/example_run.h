#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/report/report_data.h"
#include "pipeline/store/store.h"

namespace dovetail::pipeline {

// A run of eight columns with everything in it that a report tells: topics drawn, questions and
// answers by a model, a judge, failures, skips and drops, the same for the same number of records.
std::unique_ptr<Store> example_store(const std::filesystem::path& file, std::uint64_t records);
std::vector<ColumnInfo> example_infos();

// What two endpoints did over `seconds`.
std::vector<EndpointReport> example_endpoints(std::uint64_t seconds);

}  // namespace dovetail::pipeline
