#include "pipeline/results/results_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "support/temp_folder.h"

namespace dovetail::pipeline {
namespace {

using testing::HasSubstr;

ResultsOptions options_in(const test::TempFolder& folder, const std::string& name,
                          bool resume = false) {
  return {folder / name, std::nullopt, {"n", "text"}, folder / "dropped.jsonl", resume};
}

Json row_of(std::uint64_t record, const std::string& text) {
  return {{"n", record}, {"text", text}};
}

TEST(ResultsWriter, FormatComesFromTheSuffix) {
  EXPECT_EQ(results_format("a/b.jsonl").value(), ResultsFormat::kJsonLines);
  EXPECT_EQ(results_format("b.ndjson").value(), ResultsFormat::kJsonLines);
  EXPECT_EQ(results_format("b.json").value(), ResultsFormat::kJsonLines);
  EXPECT_EQ(results_format("b.CSV").value(), ResultsFormat::kCsv);
  EXPECT_THAT(results_format("b.parquet").error().message,
              HasSubstr("b.parquet: the suffix \".parquet\" names no format"));
}

TEST(ResultsWriter, WriteBringsAllRecordsIntoTheFilesInTheirOrder) {
  const test::TempFolder folder;
  auto writer = ResultsWriter::open(options_in(folder, "out.jsonl")).value();
  ASSERT_TRUE(writer.add(0, row_of(0, "x"), ""));
  ASSERT_TRUE(writer.write());
  EXPECT_EQ(test::read_bytes(folder / "out.jsonl"), "{\"n\":0,\"text\":\"x\"}\n");
  ASSERT_TRUE(writer.add(1, row_of(1, "y"), "text: too short"));
  ASSERT_TRUE(writer.add(2, row_of(2, "z"), ""));
  ASSERT_TRUE(writer.write());
  EXPECT_EQ(test::read_bytes(folder / "out.jsonl"),
            "{\"n\":0,\"text\":\"x\"}\n{\"n\":2,\"text\":\"z\"}\n");
  EXPECT_EQ(test::read_bytes(folder / "dropped.jsonl"),
            "{\"record\":1,\"reason\":\"text: too short\",\"row\":{\"n\":1,\"text\":\"y\"}}\n");
  EXPECT_EQ(writer.accepted(), 2U);
  EXPECT_EQ(writer.dropped(), 1U);
  EXPECT_TRUE(writer.finish());
}

TEST(ResultsWriter, NoticesThatItsFileIsGone) {
  for (const bool replaced : {false, true}) {
    const test::TempFolder folder;
    auto writer = ResultsWriter::open(options_in(folder, "out.jsonl")).value();
    ASSERT_TRUE(writer.add(0, row_of(0, "x"), ""));
    ASSERT_TRUE(writer.write());
    std::filesystem::remove(folder / "out.jsonl");
    if (replaced) std::ofstream(folder / "out.jsonl") << "other\n";
    ASSERT_TRUE(writer.add(1, row_of(1, "y"), ""));
    const Status written = writer.write();
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().kind, ErrorKind::kNotFound);
    EXPECT_THAT(written.error().message, HasSubstr("out.jsonl: the file was"));
    EXPECT_THAT(written.error().message, HasSubstr("`dovetail pipeline resume` writes it again"));
    EXPECT_FALSE(writer.finish());
    if (replaced) {
      EXPECT_EQ(test::read_bytes(folder / "out.jsonl"), "other\n");
    }
  }
}

// All of it was there when the file vanished.
TEST(ResultsWriter, NoticesThatItsFileIsGoneAtTheEnd) {
  const test::TempFolder folder;
  auto writer = ResultsWriter::open(options_in(folder, "out.jsonl")).value();
  ASSERT_TRUE(writer.add(0, row_of(0, "x"), ""));
  ASSERT_TRUE(writer.write());
  std::filesystem::rename(folder / "out.jsonl", folder / "elsewhere.jsonl");
  EXPECT_FALSE(writer.finish());
}

TEST(ResultsWriter, CsvBeginsWithItsHeaderAlsoWithoutRecords) {
  const test::TempFolder folder;
  auto writer = ResultsWriter::open(options_in(folder, "out.csv")).value();
  EXPECT_EQ(test::read_bytes(folder / "out.csv"), "n,text\r\n");
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(test::read_bytes(folder / "out.csv"), "n,text\r\n");
  EXPECT_FALSE(std::filesystem::exists(folder / "dropped.jsonl"));
}

TEST(ResultsWriter, OptionBeatsSuffix) {
  const test::TempFolder folder;
  ResultsOptions options = options_in(folder, "out.txt");
  options.format = ResultsFormat::kCsv;
  ASSERT_TRUE(ResultsWriter::open(options));
  EXPECT_EQ(test::read_bytes(folder / "out.txt"), "n,text\r\n");
}

TEST(ResultsWriter, NewRunLeavesWhatIsThere) {
  const test::TempFolder folder;
  std::ofstream(folder / "out.jsonl") << "mine\n";
  const auto writer = ResultsWriter::open(options_in(folder, "out.jsonl"));
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(writer.error().message, HasSubstr("out.jsonl: there is such a file already"));
  EXPECT_EQ(test::read_bytes(folder / "out.jsonl"), "mine\n");
}

TEST(ResultsWriter, ErrorsNameTheFile) {
  const test::TempFolder folder;
  const auto nowhere = ResultsWriter::open(options_in(folder, "no/out.jsonl"));
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message,
              HasSubstr("no/out.jsonl: cannot write: its folder does not"));

  std::filesystem::create_directory(folder / "folder.csv");
  const auto directory = ResultsWriter::open(options_in(folder, "folder.csv"));
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message, HasSubstr("folder.csv: cannot write"));

  ResultsOptions twice = options_in(folder, "out.jsonl");
  twice.dropped_file = twice.file;
  EXPECT_THAT(ResultsWriter::open(twice).error().message, HasSubstr("cannot go to the file"));

  ResultsOptions dropped = options_in(folder, "out.jsonl");
  dropped.dropped_file = folder / "no/dropped.jsonl";
  EXPECT_THAT(ResultsWriter::open(dropped).error().message, HasSubstr("no/dropped.jsonl"));
}

// Somebody who may not write everywhere.
class Nobody {
 public:
  Nobody() : former_(::geteuid()) {
    if (former_ == 0) lowered_ = ::seteuid(65534) == 0;
  }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;
  ~Nobody() {
    if (lowered_ && ::seteuid(former_) != 0) std::abort();
  }

 private:
  uid_t former_;
  bool lowered_ = false;
};

TEST(ResultsWriter, ReadOnlyFolder) {
  const test::TempFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0555));
  const auto writer = [&] {
    const Nobody nobody;
    return ResultsWriter::open(options_in(folder, "out.jsonl"));
  }();
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().kind, ErrorKind::kIo);
  EXPECT_THAT(writer.error().message, HasSubstr("out.jsonl: cannot write: Permission denied"));
  EXPECT_THAT(writer.error().message, HasSubstr("must be writable"));
}

// Files can grow up to so many bytes, as on a full disk.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    former_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &former_);
    rlimit limit = former_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;
  ~SizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &former_);
    std::signal(SIGXFSZ, former_handler_);
  }

 private:
  rlimit former_{};
  void (*former_handler_)(int) = nullptr;
};

TEST(ResultsWriter, NoRoomLeavesWholeLinesAndCanBeTriedAgain) {
  const test::TempFolder folder;
  auto writer = ResultsWriter::open(options_in(folder, "out.jsonl")).value();
  ASSERT_TRUE(writer.add(0, row_of(0, "x"), ""));
  ASSERT_TRUE(writer.write());
  const std::string before = test::read_bytes(folder / "out.jsonl");
  const Json big = row_of(1, std::string(5000, 'y'));
  ASSERT_TRUE(writer.add(1, big, ""));
  {
    const SizeLimit limit(1000);
    const Status full = writer.write();
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().kind, ErrorKind::kIo);
    EXPECT_THAT(full.error().message, HasSubstr("out.jsonl: cannot write"));
    EXPECT_EQ(test::read_bytes(folder / "out.jsonl"), before);
  }
  ASSERT_TRUE(writer.write());
  EXPECT_EQ(test::read_bytes(folder / "out.jsonl"), before + big.dump() + "\n");
  EXPECT_EQ(writer.accepted(), 2U);
}

// Records that are kept are bounded, and what cannot be kept can be given again.
TEST(ResultsWriter, ManyRecordsAreWrittenUnasked) {
  const test::TempFolder folder;
  auto writer = ResultsWriter::open(options_in(folder, "out.jsonl")).value();
  std::string lines;
  std::uint64_t record = 0;
  const auto row = [&] { return row_of(record, std::string(1000, 'a')); };
  const SizeLimit limit(500'000);
  Status added;
  for (; record < 10'000; ++record) {
    added = writer.add(record, row(), "");
    if (!added) break;
    lines += row().dump() + "\n";
  }
  ASSERT_FALSE(added);
  const std::string written = test::read_bytes(folder / "out.jsonl");
  EXPECT_GT(written.size(), 400'000U);
  EXPECT_EQ(written.back(), '\n');
  EXPECT_TRUE(lines.starts_with(written));
  rlimit none{};
  ::getrlimit(RLIMIT_FSIZE, &none);
  none.rlim_cur = none.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
  ASSERT_TRUE(writer.add(record, row(), ""));
  ASSERT_TRUE(writer.write());
  EXPECT_TRUE(test::read_bytes(folder / "out.jsonl") == lines + row().dump() + "\n");
}

struct Written {
  std::string results, dropped;
  bool operator==(const Written&) const = default;
};

Written files_in(const test::TempFolder& folder, const std::string& name) {
  return {test::read_bytes(folder / name), test::read_bytes(folder / "dropped.jsonl")};
}

void write_records(ResultsWriter& writer, const std::vector<std::string>& texts,
                   std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    // A third of them is dropped.
    const bool drop = texts[i].size() % 3 == 2;
    RC_ASSERT(writer.add(i, row_of(i, texts[i]), drop ? "why" : "").has_value());
    if (texts[i].size() % 2 == 1) RC_ASSERT(writer.write().has_value());
  }
  RC_ASSERT(writer.write().has_value());
}

// However a run was ended, and whatever of its last write has reached the file.
RC_GTEST_PROP(ResultsWriter, ResumedFilesAreThoseOfAnUninterruptedRun,
              (const std::vector<std::string>& texts)) {
  const std::string name = *rc::gen::element<std::string>("out.jsonl", "out.csv");
  const test::TempFolder whole;
  auto uninterrupted = ResultsWriter::open(options_in(whole, name)).value();
  write_records(uninterrupted, texts, texts.size());
  RC_ASSERT(uninterrupted.finish().has_value());

  const test::TempFolder folder;
  const int kills = *rc::gen::inRange(1, 4);
  for (int i = 0; i < kills; ++i) {
    auto writer = ResultsWriter::open(options_in(folder, name, i > 0)).value();
    write_records(writer, texts, *rc::gen::inRange<std::size_t>(0, texts.size() + 1));
    for (const std::string& file : {name, std::string("dropped.jsonl")}) {
      std::error_code absent;
      const auto size = std::filesystem::file_size(folder / file, absent);
      if (absent) continue;
      std::filesystem::resize_file(folder / file, *rc::gen::inRange<std::uintmax_t>(0, size + 1));
    }
  }
  auto resumed = ResultsWriter::open(options_in(folder, name, true)).value();
  write_records(resumed, texts, texts.size());
  RC_ASSERT(resumed.finish().has_value());
  RC_ASSERT(files_in(folder, name) == files_in(whole, name));
}

// A column was changed: the old rows make way where they differ.
RC_GTEST_PROP(ResultsWriter, ChangedRowsReplaceFormerOnes,
              (const std::vector<std::string>& before, const std::vector<std::string>& after)) {
  const std::string name = *rc::gen::element<std::string>("out.jsonl", "out.csv");
  const test::TempFolder whole, folder;
  auto fresh = ResultsWriter::open(options_in(whole, name)).value();
  write_records(fresh, after, after.size());
  RC_ASSERT(fresh.finish().has_value());

  auto first = ResultsWriter::open(options_in(folder, name)).value();
  write_records(first, before, before.size());
  auto second = ResultsWriter::open(options_in(folder, name, true)).value();
  write_records(second, after, after.size());
  RC_ASSERT(second.finish().has_value());
  RC_ASSERT(files_in(folder, name) == files_in(whole, name));
}

TEST(ResultsWriter, ResumedRunCutsHalfALineAtOnceAndKeepsTheRest) {
  const test::TempFolder folder;
  std::ofstream(folder / "out.csv", std::ios::binary) << "n,text\r\n0,\"a\nb\"\r\n1,\"c\nd";
  auto writer = ResultsWriter::open(options_in(folder, "out.csv", true)).value();
  EXPECT_EQ(test::read_bytes(folder / "out.csv"), "n,text\r\n0,\"a\nb\"\r\n");
  ASSERT_TRUE(writer.add(0, row_of(0, "a\nb"), ""));
  ASSERT_TRUE(writer.sync());
  EXPECT_EQ(test::read_bytes(folder / "out.csv"), "n,text\r\n0,\"a\nb\"\r\n");
}

TEST(ResultsWriter, SyncKeepsLinesThatAResumedRunHasNotComeTo) {
  const test::TempFolder folder;
  std::ofstream(folder / "out.jsonl", std::ios::binary)
      << "{\"n\":0,\"text\":\"x\"}\n{\"n\":1,\"text\":\"y\"}\n";
  auto writer = ResultsWriter::open(options_in(folder, "out.jsonl", true)).value();
  ASSERT_TRUE(writer.add(0, row_of(0, "x"), ""));
  ASSERT_TRUE(writer.sync());
  EXPECT_THAT(test::read_bytes(folder / "out.jsonl"), HasSubstr("\"y\""));
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(test::read_bytes(folder / "out.jsonl"), "{\"n\":0,\"text\":\"x\"}\n");
}

// More than is read ahead at a time.
TEST(ResultsWriter, ComparesLongFiles) {
  const test::TempFolder folder;
  const auto write = [&](bool resume, std::uint64_t changed) {
    auto writer = ResultsWriter::open(options_in(folder, "out.jsonl", resume)).value();
    for (std::uint64_t i = 0; i < 300; ++i) {
      const std::size_t size = i == 7 ? std::size_t{3} << 20 : 10'000;
      ASSERT_TRUE(writer.add(i, row_of(i, std::string(size, i == changed ? 'b' : 'a')), ""));
    }
    ASSERT_TRUE(writer.finish());
  };
  write(false, 250);
  const std::string expected = test::read_bytes(folder / "out.jsonl");
  write(true, 250);
  EXPECT_TRUE(test::read_bytes(folder / "out.jsonl") == expected);
  write(true, 120);
  EXPECT_FALSE(test::read_bytes(folder / "out.jsonl") == expected);
  write(true, 250);
  EXPECT_TRUE(test::read_bytes(folder / "out.jsonl") == expected);
}

}  // namespace
}  // namespace dovetail::pipeline
