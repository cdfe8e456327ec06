#include "pipeline/sample/seed.h"

#include <xxhash.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "load/quote.h"
#include "pipeline/sample/glob.h"
#include "pipeline/sample/mistakes.h"
#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::uint64_t kLargestFile = std::uint64_t{64} << 20U;

Result<std::vector<std::string>> find_files(const SeedSpec& spec, const fs::path& base) {
  std::error_code error;
  std::string pattern = spec.path;
  if (fs::exists(base / pattern, error)) {
    if (!fs::is_directory(base / pattern, error)) return std::vector<std::string>{pattern};
    static constexpr const char* kEndings[] = {"/**/*.csv", "/**/*.jsonl", "/**"};
    pattern += kEndings[static_cast<std::size_t>(spec.format)];
  } else if (!has_wildcards(pattern)) {
    return fail(ErrorKind::kNotFound, "seed {}: no such file or folder in {}",
                load::quote(spec.path), load::quote(base.string()));
  }
  auto files = expand_glob(base, pattern);
  if (files && files->empty()) {
    return fail(ErrorKind::kNotFound, "seed {}: no file in {} fits {}", load::quote(spec.path),
                load::quote(base.string()), load::quote(pattern));
  }
  return files;
}

Result<std::vector<SeedFile>> open_files(const SeedSpec& spec, const fs::path& base) {
  auto names = find_files(spec, base);
  if (!names) return fail(names.error());
  constexpr std::size_t kMostOpen = 64;
  std::vector<SeedFile> files;
  files.reserve(names->size());
  for (std::string& name : *names) {
    if (!text::is_valid_utf8(name)) {
      return fail(ErrorKind::kInvalid, "seed: the name of file {} is no UTF-8", load::quote(name));
    }
    auto file = SeedFile::open(base / name, name);
    if (!file) return fail(file.error());
    if (names->size() > kMostOpen) file->release();
    files.push_back(*std::move(file));
  }
  return files;
}

std::uint64_t fingerprint_of(const std::vector<SeedFile>& files) {
  std::uint64_t hash = 0;
  for (const SeedFile& file : files) {
    const std::string facts =
        fmt::format("{}\n{}\n{}\n", file.name(), file.size(), file.modified());
    hash = XXH3_64bits_withSeed(facts.data(), facts.size(), hash);
  }
  return hash;
}

}  // namespace

Result<std::unique_ptr<SeedSource>> open_seed(const SeedSpec& spec, const fs::path& base_dir,
                                              std::uint64_t run_seed) {
  auto files = open_files(spec, base_dir);
  if (!files) return fail(files.error());
  auto seed = std::unique_ptr<SeedSource>(new SeedSource());
  seed->path_ = spec.path;
  seed->content_ = spec.content;
  seed->shuffled_ = spec.shuffled;
  seed->wrap_ = spec.wrap;
  seed->run_seed_ = run_seed;
  if (spec.format == SeedFormat::kFiles) {
    seed->columns_ = {"path", "name", "content", "size"};
    if (!spec.content) seed->columns_.erase(seed->columns_.begin() + 2);
    seed->fingerprint_ = fingerprint_of(*files);
    seed->rows_ = *std::move(files);
  } else {
    auto index = RecordIndex::make(*std::move(files), spec);
    if (!index) return fail(index.error());
    seed->columns_ = index->columns();
    seed->fingerprint_ = index->fingerprint();
    seed->rows_ = *std::move(index);
  }
  for (const std::string& column : spec.columns) {
    const auto& known = seed->columns_;
    if (std::find(known.begin(), known.end(), column) != known.end()) continue;
    return fail(ErrorKind::kInvalid, "seed {}: columns: no column {}; {}", load::quote(spec.path),
                load::quote(column), valid_names(column, known));
  }
  if (spec.filter) {
    if (Status status = spec.filter->check_columns(seed->columns_); !status) {
      return fail(status.error());
    }
    if (Status status = seed->filter(*spec.filter); !status) return fail(status.error());
  }
  if (!spec.columns.empty()) {
    seed->columns_ = spec.columns;
    seed->all_columns_ = false;
  }

  const auto* index = std::get_if<RecordIndex>(&seed->rows_);
  const std::uint64_t stored =
      index != nullptr ? index->count() : std::get<std::vector<SeedFile>>(seed->rows_).size();
  const std::uint64_t share = stored / spec.parts;
  const std::uint64_t surplus = stored % spec.parts;  // the first parts have one row more
  const std::uint64_t part_begin = spec.part * share + std::min(spec.part, surplus);
  const std::uint64_t part_size = share + (spec.part < surplus ? 1 : 0);
  seed->begin_ = spec.parts > 1 ? part_begin : std::min(spec.start, stored);
  const std::uint64_t end =
      spec.parts > 1 ? part_begin + part_size : std::min(spec.end.value_or(stored), stored);
  seed->count_ = end - seed->begin_;
  if (seed->count_ == 0) {
    return fail(ErrorKind::kInvalid, "seed {}: no rows are left of {}; valid: a {} with rows",
                load::quote(spec.path), stored,
                stored == 0 ? (spec.filter ? "filter" : "file") : "range or partition");
  }
  if (seed->shuffled_) seed->first_order_.emplace(run_seed, spec.path, 0, seed->count_);
  return seed;
}

Status SeedSource::filter(const Condition& condition) {
  auto* index = std::get_if<RecordIndex>(&rows_);
  auto* files = std::get_if<std::vector<SeedFile>>(&rows_);
  const std::uint64_t stored = index != nullptr ? index->count() : files->size();
  std::vector<bool> keep(stored);
  for (std::uint64_t i = 0; i < stored; ++i) {
    const auto row = stored_row(i);
    if (!row) return fail(row.error());
    const auto holds = condition.holds(*row);
    if (!holds) {
      return fail(holds.error().kind, "seed {}, row {}: {}", load::quote(path_), i,
                  holds.error().message);
    }
    keep[i] = *holds;
  }
  if (index != nullptr) {
    index->keep_only(keep);
    return {};
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < files->size(); ++i) {
    if (!keep[i]) continue;
    if (kept != i) (*files)[kept] = std::move((*files)[i]);
    ++kept;
  }
  files->erase(files->begin() + static_cast<std::ptrdiff_t>(kept), files->end());
  return {};
}

Result<ordered_json> SeedSource::stored_row(std::uint64_t number) const {
  if (const auto* index = std::get_if<RecordIndex>(&rows_)) return index->row(number);
  return file_row(std::get<std::vector<SeedFile>>(rows_)[number]);
}

Result<ordered_json> SeedSource::file_row(const SeedFile& file) const {
  auto row = ordered_json::object();
  row["path"] = file.name();
  row["name"] = file.name().substr(file.name().find_last_of('/') + 1);
  if (content_) {
    if (file.size() > kLargestFile) {
      return fail(ErrorKind::kInvalid, "{}: {} bytes; valid: at most {}", file.name(), file.size(),
                  kLargestFile);
    }
    if (Status status = file.check_unchanged(); !status) return fail(status.error());
    std::string content(file.size(), '\0');
    const auto read = file.read_at(0, content);
    if (!read) return fail(read.error());
    content.resize(*read);
    if (!text::is_valid_utf8(content)) {
      return fail(ErrorKind::kInvalid,
                  "{}: no UTF-8; valid: text files in UTF-8, or content: false", file.name());
    }
    row["content"] = std::move(content);
  }
  row["size"] = file.size();
  return row;
}

Result<ordered_json> SeedSource::row(std::uint64_t index) const {
  const std::uint64_t epoch = index / count_;
  std::uint64_t place = index % count_;
  if (epoch > 0 && !wrap_) {
    return fail(ErrorKind::kInvalid,
                "seed {}: record {} of {} rows; valid: at most {} records, or wrap: true",
                load::quote(path_), index, count_, count_);
  }
  if (shuffled_) {
    place =
        epoch == 0 ? (*first_order_)(place) : Permutation(run_seed_, path_, epoch, count_)(place);
  }
  auto stored = stored_row(begin_ + place);
  if (!stored || all_columns_) return stored;
  auto row = ordered_json::object();
  for (const std::string& column : columns_) row[column] = std::move((*stored)[column]);
  return row;
}

}  // namespace dovetail::pipeline
