#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/engine_options.h"
#include "cli/output.h"

namespace dovetail::cli {
namespace {

namespace fs = std::filesystem;

TEST(OutputFile, GoesOnWhereASignalInterruptsIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);  // without SA_RESTART, as InterruptGuard

  std::string sent;
  while (sent.size() < (std::size_t{1} << 20)) sent += std::to_string(sent.size()) + '\n';
  Status written = fail(ErrorKind::kInternal, "not reached");
  std::thread writer([&] {
    Result<OutputFile> output = OutputFile::open("/dev/fd/" + std::to_string(ends[1]));
    ASSERT_TRUE(output);
    close(ends[1]);
    written = output->write(sent);
  });
  // Until the pipe is full and the writer waits.
  const auto waiting = [&] {
    int bytes = 0;
    ioctl(ends[0], FIONREAD, &bytes);
    return bytes;
  };
  for (int before = -1; before == 0 || before != waiting();) {
    before = waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // The first interrupts a write that has begun, the others one that has not.
  for (int i = 0; i < 3; ++i) {
    pthread_kill(writer.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  std::string received;
  std::array<char, 4096> buffer{};
  for (ssize_t size = 0; (size = read(ends[0], buffer.data(), buffer.size())) > 0;)
    received.append(buffer.data(), static_cast<std::size_t>(size));
  writer.join();
  close(ends[0]);
  EXPECT_TRUE(written) << written.error().message;
  EXPECT_TRUE(received == sent) << received.size() << " of " << sent.size() << " bytes";
}

TEST(ReadTemplateFile, RefusesAnEmptyFile) {
  const fs::path path = fs::path(testing::TempDir()) / ("template" + std::to_string(getpid()));
  std::ofstream(path).close();
  const auto empty = read_template_file(path);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().message,
            "--chat-template: " + path.string() + ": it is empty, expected a Jinja template");
  std::ofstream(path) << "{{ x }}";
  EXPECT_EQ(read_template_file(path), "{{ x }}");
  EXPECT_EQ(read_template_file(""), "");
  fs::remove(path);
}

TEST(ReadTemplateFile, TakesTheNameOfABuiltInTemplateWhereNoFileHasIt) {
  const fs::path before = fs::current_path();
  const fs::path folder = fs::path(testing::TempDir()) / ("templates" + std::to_string(getpid()));
  fs::create_directories(folder / "deepseek-v3.2");  // such as the model's
  fs::current_path(folder);
  EXPECT_EQ(read_template_file("deepseek-v4"), "deepseek-v4");
  EXPECT_EQ(read_template_file("deepseek-v3.2"), "deepseek-v3.2");
  std::ofstream("deepseek-v4") << "{{ x }}";
  EXPECT_EQ(read_template_file("deepseek-v4"), "{{ x }}");
  const auto unknown = read_template_file("deepseek-v5");
  const auto a_folder = read_template_file(folder);
  fs::current_path(before);
  fs::remove_all(folder);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message,
            "--chat-template: deepseek-v5: there is no such file, expected a file with a Jinja "
            "template, or one of those that are built in: deepseek-v3.1, deepseek-v3.2, "
            "deepseek-v4");
  ASSERT_FALSE(a_folder);
  EXPECT_THAT(a_folder.error().message, testing::HasSubstr(": it is a folder, expected a file"));
}

}  // namespace
}  // namespace dovetail::cli
