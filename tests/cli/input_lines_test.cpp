#include "cli/input_lines.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace dovetail::cli {
namespace {

namespace fs = std::filesystem;
using Numbered = std::pair<std::size_t, std::string>;

class InputLinesTest : public testing::Test {
 protected:
  ~InputLinesTest() override { fs::remove(path_); }

  static std::vector<Numbered> all(InputLines& lines) {
    std::vector<Numbered> found;
    for (;;) {
      const auto line = lines.next();
      EXPECT_TRUE(line) << line.error().message;
      if (!line || !*line) return found;
      found.emplace_back((*line)->number, (*line)->text);
    }
  }

  std::string path_ = fs::temp_directory_path() / ("dovetail-lines-" + std::to_string(getpid()));
};

TEST_F(InputLinesTest, CountsLinesAndSkipsBlankOnes) {
  std::ofstream(path_) << "\xEF\xBB\xBF{\"a\"}\r\n\n  \n{\"b\"} \nlast";
  auto lines = InputLines::open(path_);
  ASSERT_TRUE(lines) << lines.error().message;
  const std::vector<Numbered> expected = {{1, "{\"a\"}"}, {4, "{\"b\"}"}, {5, "last"}};
  EXPECT_EQ(all(*lines), expected);
  ASSERT_TRUE(lines->rewind());
  EXPECT_EQ(all(*lines), expected);
}

TEST_F(InputLinesTest, ReadsAPipeTwice) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::thread writer([this] {
    std::ofstream to(path_);
    for (int i = 0; i < 10000; ++i) to << "line " << i << "\n";
  });
  auto lines = InputLines::open(path_);
  writer.join();
  ASSERT_TRUE(lines) << lines.error().message;
  const std::vector<Numbered> first = all(*lines);
  ASSERT_EQ(first.size(), 10000U);
  EXPECT_EQ(first.back(), Numbered(10000, "line 9999"));
  ASSERT_TRUE(lines->rewind());
  EXPECT_EQ(all(*lines), first);
}

TEST_F(InputLinesTest, NamesWhatItCannotOpen) {
  EXPECT_EQ(InputLines::open("/nowhere/in.jsonl").error().message,
            "/nowhere/in.jsonl: No such file or directory");
  EXPECT_EQ(InputLines::open("/tmp").error().message,
            "/tmp: it is a folder, expected a file of JSON lines");
}

}  // namespace
}  // namespace dovetail::cli
