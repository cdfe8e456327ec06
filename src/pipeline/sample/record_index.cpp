#include "pipeline/sample/record_index.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "load/quote.h"
#include "pipeline/sample/csv.h"
#include "pipeline/sample/json_scan.h"
#include "pipeline/sample/mistakes.h"
#include "text/utf8.h"

namespace dovetail::pipeline {
namespace {

using nlohmann::ordered_json;

constexpr unsigned kOffsetBits = 48;
constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kOffsetBits) - 1;
constexpr std::size_t kMostFiles = std::size_t{1} << 16U;
// More files than this are opened for each record anew.
constexpr std::size_t kMostOpenFiles = 64;
constexpr std::size_t kBlock = std::size_t{1} << 20U;
constexpr std::array<std::string_view, 4> kTypeNames = {"str", "int", "float", "bool"};

bool is_ascii(std::string_view text) {
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080U) != 0) return false;
  }
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(),
                     [](char c) { return static_cast<signed char>(c) >= 0; });
}

// The first byte that is not part of well-formed UTF-8; text.size() where there is none.
std::size_t first_ill_formed(std::string_view text) {
  if (is_ascii(text) || text::is_valid_utf8(text)) return text.size();
  std::size_t at = 0;
  for (;;) {
    std::size_t size = 1;
    while (size <= 4 && at + size <= text.size() && !text::is_valid_utf8(text.substr(at, size))) {
      ++size;
    }
    if (size > 4 || at + size > text.size()) return at;
    at += size;
  }
}

// The line that `text` starts with, a record of JSON lines.
void split_line(std::string_view text, bool last, CsvRecord& out) {
  const auto end = text.find('\n');
  if (end == std::string_view::npos && !last) {
    out.state = CsvRecord::State::kNeedsMore;
    return;
  }
  out.consumed = end == std::string_view::npos ? text.size() : end + 1;
  const bool blank =
      text.substr(0, out.consumed).find_first_not_of(" \t\r\n") == std::string_view::npos;
  out.state = blank ? CsvRecord::State::kEmpty : CsvRecord::State::kComplete;
}

}  // namespace

// Reads the files from end to end and fills the index.
class RecordIndex::Scan {
 public:
  Scan(RecordIndex& index, const SeedSpec& spec)
      : index_(index), spec_(spec), hash_(XXH3_createState(), &XXH3_freeState) {
    XXH3_64bits_reset(hash_.get());
  }

  Status run() {
    for (std::size_t i = 0; i < index_.sources_.size(); ++i) {
      if (Status status = scan_file(i); !status) return status;
      if (Status status = index_.sources_[i].file.check_unchanged(); !status) return status;
      if (index_.sources_.size() > kMostOpenFiles) index_.sources_[i].file.release();
    }
    index_.fingerprint_ = XXH3_64bits_digest(hash_.get());
    index_.usual_ = index_.starts_.empty() ? 0 : bytes_ / index_.starts_.size();
    index_.starts_.shrink_to_fit();
    return set_types();
  }

 private:
  Status scan_file(std::size_t number) {
    Source& source = index_.sources_[number];
    const SeedFile& file = source.file;
    if (file.size() > kOffsetMask) {
      return fail(ErrorKind::kInvalid, "{}: {} bytes; valid: at most 256 TiB", file.name(),
                  file.size());
    }
    line_ = 1;
    has_header_ = index_.format_ == SeedFormat::kJsonl;
    std::string buffer;
    std::uint64_t start = 0;  // of the buffer in the file
    std::size_t at = 0;       // in the buffer
    bool last = false;
    bool begun = false;
    for (;;) {
      const std::string_view text = std::string_view(buffer).substr(at);
      if (begun && text.empty() && last) break;
      record_.state = CsvRecord::State::kNeedsMore;
      if (begun && !text.empty()) {
        if (index_.format_ == SeedFormat::kCsv) {
          parse_csv_record(text, index_.delimiter_, last, record_);
        } else {
          split_line(text, last, record_);
        }
      }
      if (record_.state == CsvRecord::State::kError) {
        return wrong(file, text, record_.error_at, record_.error);
      }
      if (record_.state == CsvRecord::State::kNeedsMore) {
        if (text.size() > kLongestRecord) {
          return fail(ErrorKind::kInvalid,
                      "{}:{}: a record of more than {} bytes (an open quote?); valid: shorter ones",
                      file.name(), line_, kLongestRecord);
        }
        start += at;
        buffer.erase(0, at);
        at = 0;
        const std::size_t held = buffer.size();
        // Growing with what is held keeps reading a long record over and over again linear.
        const std::uint64_t left = file.size() - start - held;
        const std::size_t wanted =
            static_cast<std::size_t>(std::min<std::uint64_t>(left, std::max(kBlock, held)));
        buffer.resize(held + wanted);
        const auto read = file.read_at(start + held, std::span(buffer).subspan(held));
        if (!read) return fail(read.error());
        if (*read < wanted)
          return file.check_unchanged() ? too_short(file) : file.check_unchanged();
        XXH3_64bits_update(hash_.get(), buffer.data() + held, wanted);
        last = wanted == left;
        if (!begun) {
          begun = true;
          if (Status status = skip_mark(source, buffer, at); !status) return status;
        }
        continue;
      }
      const std::string_view whole = text.substr(0, record_.consumed);
      if (record_.state == CsvRecord::State::kComplete) {
        if (const std::size_t bad = first_ill_formed(whole); bad < whole.size()) {
          return wrong(file, whole, bad,
                       fmt::format("byte 0x{:02x} is no UTF-8; valid: text in UTF-8",
                                   static_cast<unsigned char>(whole[bad])));
        }
        if (Status status = take(number, start + at, file, whole); !status) return status;
      }
      line_ += static_cast<std::uint64_t>(std::count(whole.begin(), whole.end(), '\n'));
      at += record_.consumed;
    }
    if (!has_header_) {
      return fail(ErrorKind::kInvalid, "{}: empty; valid: a header line with the columns' names",
                  file.name());
    }
    return {};
  }

  static Status too_short(const SeedFile& file) {
    return fail(ErrorKind::kIo, "{}: ended early", file.name());
  }

  // "FILE:LINE:COLUMN: what": a place within the record that `text` starts with.
  Status wrong(const SeedFile& file, std::string_view text, std::size_t at,
               std::string_view message) const {
    const std::string_view before = text.substr(0, at);
    const auto lines = static_cast<std::uint64_t>(std::count(before.begin(), before.end(), '\n'));
    const auto line_start = before.find_last_of('\n');
    const std::string_view within =
        line_start == std::string_view::npos ? before : before.substr(line_start + 1);
    const auto characters = std::count_if(within.begin(), within.end(), [](char c) {
      return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
    });
    return fail(ErrorKind::kInvalid, "{}:{}:{}: {}", file.name(), line_ + lines, characters + 1,
                message);
  }

  static Status skip_mark(Source& source, std::string_view text, std::size_t& at) {
    if (text.starts_with("\xEF\xBB\xBF")) at = 3;
    if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
      return fail(ErrorKind::kInvalid, "{}: UTF-16; valid: text in UTF-8", source.file.name());
    }
    source.first_byte = at;
    return {};
  }

  Status take(std::size_t number, std::uint64_t offset, const SeedFile& file,
              std::string_view whole) {
    if (index_.format_ == SeedFormat::kJsonl) {
      if (Status status = take_json(file, whole); !status) return status;
    } else if (!has_header_) {
      has_header_ = true;
      return take_header(file, number == 0);
    } else {
      if (record_.fields.size() != index_.columns_.size()) {
        return wrong(file, whole, 0,
                     fmt::format("{} fields; valid: {}, as many as the header has",
                                 record_.fields.size(), index_.columns_.size()));
      }
      for (std::size_t i = 0; i < guesses_.size(); ++i) {
        if (forced_[i]) {
          if (!typed_field(record_.fields[i], *forced_[i])) {
            return wrong(file, whole, 0,
                         fmt::format("column {}: {}; valid: {}", load::quote(index_.columns_[i]),
                                     load::quote(record_.fields[i]),
                                     kTypeNames[static_cast<std::size_t>(*forced_[i])]));
          }
        } else if (spec_.infer_types) {
          guesses_[i].see(record_.fields[i]);
        }
      }
    }
    index_.starts_.push_back(std::uint64_t{number} << kOffsetBits | offset);
    index_.longest_ = std::max(index_.longest_, whole.size());
    bytes_ += whole.size();
    return {};
  }

  Status take_header(const SeedFile& file, bool first) {
    if (!first) {
      if (record_.fields == index_.columns_) return {};
      return fail(ErrorKind::kInvalid, "{}:{}: another header than in {}; valid: the same columns",
                  file.name(), line_, index_.sources_.front().file.name());
    }
    if (record_.fields.size() > kMostColumns) {
      return fail(ErrorKind::kInvalid, "{}:{}: {} columns; valid: at most {}", file.name(), line_,
                  record_.fields.size(), kMostColumns);
    }
    for (std::size_t i = 0; i < record_.fields.size(); ++i) {
      const std::string& name = record_.fields[i];
      if (name.empty() || !known_.emplace(name, i).second) {
        return fail(ErrorKind::kInvalid, "{}:{}: column {} is named {}; valid: names that differ",
                    file.name(), line_, i + 1, load::quote(name));
      }
    }
    index_.columns_ = record_.fields;
    guesses_.resize(index_.columns_.size());
    forced_.resize(index_.columns_.size());
    for (const auto& [name, type] : spec_.types) {
      const auto found = known_.find(name);
      if (found == known_.end()) {
        return fail(ErrorKind::kInvalid, "{}: types: no column {}; {}", file.name(),
                    load::quote(name), valid_names(name, index_.columns_));
      }
      forced_[found->second] = type;
    }
    return {};
  }

  Status take_json(const SeedFile& file, std::string_view whole) {
    const JsonScanLimits limits{kDeepestJson, kMostColumns};
    JsonScanError error;
    const bool fine = scan_json_object(
        whole, limits,
        [this](const std::string& key) {
          if (known_.emplace(key, known_.size()).second) index_.columns_.push_back(key);
        },
        error);
    if (!fine) {
      return wrong(file, whole, error.at, error.message + "; valid: one JSON object on each line");
    }
    if (index_.columns_.size() > kMostColumns) {
      return wrong(file, whole, 0, fmt::format("more than {} columns", kMostColumns));
    }
    return {};
  }

  Status set_types() {
    for (std::size_t i = 0; i < guesses_.size(); ++i) {
      index_.types_.push_back(
          forced_[i].value_or(spec_.infer_types ? guesses_[i].type() : SeedType::kString));
    }
    return {};
  }

  RecordIndex& index_;
  const SeedSpec& spec_;
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
  CsvRecord record_;
  std::unordered_map<std::string, std::size_t> known_;  // columns
  std::vector<TypeGuess> guesses_;
  std::vector<std::optional<SeedType>> forced_;
  std::uint64_t line_ = 1;
  bool has_header_ = false;
  std::size_t bytes_ = 0;
};

Result<RecordIndex> RecordIndex::make(std::vector<SeedFile> files, const SeedSpec& spec) {
  if (files.size() > kMostFiles) {
    return fail(ErrorKind::kInvalid, "{} files; valid: at most {}", files.size(), kMostFiles);
  }
  RecordIndex index;
  index.format_ = spec.format;
  index.delimiter_ = spec.delimiter;
  for (SeedFile& file : files) index.sources_.push_back({std::move(file), 0});
  if (Status status = Scan(index, spec).run(); !status) return fail(status.error());
  return index;
}

Result<ordered_json> RecordIndex::row(std::uint64_t number) const {
  const std::uint64_t start = starts_[number];
  const SeedFile& file = sources_[start >> kOffsetBits].file;
  const std::uint64_t offset = start & kOffsetMask;
  if (Status status = file.check_unchanged(); !status) return fail(status.error());
  CsvRecord record;
  std::string buffer;
  std::size_t held = 0;
  std::size_t wanted = std::min(longest_, std::max<std::size_t>(512, 2 * usual_));
  for (;;) {
    const std::uint64_t left = file.size() - offset;
    wanted = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, left));
    buffer.resize(wanted);
    const auto read = file.read_at(offset + held, std::span(buffer).subspan(held));
    if (!read) return fail(read.error());
    held += *read;
    const bool last = wanted == left || wanted >= longest_;
    const std::string_view text(buffer.data(), held);
    if (format_ == SeedFormat::kCsv) {
      parse_csv_record(text, delimiter_, last, record);
    } else {
      split_line(text, last, record);
    }
    if (record.state != CsvRecord::State::kNeedsMore || last || held < wanted) break;
    wanted = std::min(longest_, wanted * 2);
  }
  // Bytes that fit the index no more although size and time do: written to while this read.
  const auto changed = [&] {
    return fail(ErrorKind::kInvalid,
                "{}: has changed since it was read first; valid: a file that stays as it is during "
                "a run",
                file.name());
  };
  if (record.state != CsvRecord::State::kComplete) return changed();
  const std::string_view text = std::string_view(buffer).substr(0, record.consumed);
  if (!is_ascii(text) && !text::is_valid_utf8(text)) return changed();
  if (format_ == SeedFormat::kCsv) {
    if (record.fields.size() != columns_.size()) return changed();
    return csv_row(record);
  }
  ordered_json parsed = ordered_json::parse(text.begin(), text.end(), nullptr, false);
  if (!parsed.is_object()) return changed();
  ordered_json row = ordered_json::object();
  auto& fields = row.get_ref<ordered_json::object_t&>();
  fields.reserve(columns_.size());
  for (const std::string& column : columns_) {
    const auto found = parsed.find(column);
    fields.push_back({column, found == parsed.end() ? ordered_json() : std::move(*found)});
  }
  return row;
}

ordered_json RecordIndex::csv_row(const CsvRecord& record) const {
  ordered_json row = ordered_json::object();
  auto& fields = row.get_ref<ordered_json::object_t&>();
  fields.reserve(columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    fields.push_back(
        {columns_[i], typed_field(record.fields[i], types_[i]).value_or(ordered_json())});
  }
  return row;
}

void RecordIndex::keep_only(const std::vector<bool>& keep) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < starts_.size(); ++i) {
    if (keep[i]) starts_[kept++] = starts_[i];
  }
  starts_.resize(kept);
  starts_.shrink_to_fit();
}

}  // namespace dovetail::pipeline
