#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dovetail/pipeline.h"

namespace dovetail {

// A folder with a pipeline file and the output of its runs.
class FaceFolder {
 public:
  FaceFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "dovetail-face-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~FaceFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  FaceFolder(const FaceFolder&) = delete;
  FaceFolder& operator=(const FaceFolder&) = delete;

  std::filesystem::path output() const { return path_ / "out"; }

  Result<Pipeline> read(const std::string& yaml, std::vector<ColumnType> types) const {
    std::ofstream(path_ / "p.yaml") << yaml;
    return Pipeline::read(path_ / "p.yaml", {.column_types = std::move(types)});
  }

  // A run of the file that must be good; a test's failure is thrown.
  PipelineSummary run(const std::string& yaml, std::vector<ColumnType> types,
                      PipelineRunOptions options = {}) const {
    const auto pipeline = read(yaml, std::move(types));
    if (!pipeline) throw std::runtime_error(pipeline.error().message);
    if (options.output.empty()) options.output = output();
    auto summary = pipeline->run(options);
    if (!summary) throw std::runtime_error(summary.error().message);
    return *std::move(summary);
  }

  std::string text(const std::string& file) const { return text_of(output() / file); }

  static std::string text_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path_;
};

inline PipelineRunOptions resuming() {
  PipelineRunOptions options;
  options.resume = true;
  return options;
}

// A type whose values a function makes, of the columns that its field `of` names; the field `salt`
// is of no use to it.
inline ColumnType type_of(std::string name, ColumnMaker make, bool blocks = false,
                          std::string version = "1") {
  ColumnType type;
  type.name = std::move(name);
  type.version = std::move(version);
  type.fields = {{"of", ColumnFieldKind::kColumns}, {"salt"}};
  type.open = [make = std::move(make), blocks](const Json&) -> Result<OpenedColumn> {
    return OpenedColumn{make, {}, blocks};
  };
  return type;
}

// Counts how often each column of its type was asked for each record.
class CallCount {
 public:
  void add(std::uint64_t record) {
    const std::lock_guard lock(mutex_);
    ++calls_[record];
    ++all_;
  }
  std::uint64_t all() const {
    const std::lock_guard lock(mutex_);
    return all_;
  }
  std::uint64_t most() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t most = 0;
    for (const auto& [record, count] : calls_) most = std::max(most, count);
    return most;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> calls_;
  std::uint64_t all_ = 0;
};

}  // namespace dovetail
