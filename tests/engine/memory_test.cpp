#include "engine/memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "support/temp_folder.h"

namespace dovetail::engine {
namespace {

constexpr const char* kMeminfo = "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    1000 kB\n";
constexpr std::uint64_t kAvailable = 1000 * 1024;

struct MemoryCase {
  const char* name;
  const char* meminfo;
  const char* groups;
  std::map<std::string, std::string> files;  // below the mount
  std::optional<std::uint64_t> available;
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
};

TEST(Memory, IsWhatTheSystemAndTheGroupsLeave) {
  const MemoryCase cases[] = {
      {"no group", kMeminfo, "0::/\n", {}, kAvailable},
      {"no meminfo", "", "0::/\n", {}, std::nullopt},
      {"a system that does not say", "MemTotal: 9000 kB\n", "0::/\n", {}, std::nullopt},
      {"version 2 without a limit",
       kMeminfo,
       "0::/a\n",
       {{"a/memory.max", "max\n"}, {"a/memory.current", "5\n"}},
       kAvailable},
      {"version 2",
       kMeminfo,
       "0::/a\n",
       {{"a/memory.max", "500000\n"}, {"a/memory.current", "100000\n"}},
       400000,
       500000},
      {"pages of files count as free",
       kMeminfo,
       "0::/a\n",
       {{"a/memory.max", "500000\n"},
        {"a/memory.current", "100000\n"},
        {"a/memory.stat", "anon 1\ninactive_file 30000\nactive_file 20000\nfile 90000\n"}},
       450000,
       500000},
      {"the group around it",
       kMeminfo,
       "0::/a/b\n",
       {{"a/memory.max", "300000\n"},
        {"a/memory.current", "100000\n"},
        {"a/b/memory.max", "500000\n"},
        {"a/b/memory.current", "0\n"}},
       200000,
       300000},
      {"the top of a container",
       kMeminfo,
       "0::/\n",
       {{"memory.max", "300000\n"}, {"memory.current", "0\n"}},
       300000,
       300000},
      {"a group outside of the namespace",
       kMeminfo,
       "0::/../other\n",
       {{"memory.max", "300000\n"}, {"memory.current", "0\n"}, {"other/memory.max", "1\n"}},
       300000,
       300000},
      {"more in use than allowed",
       kMeminfo,
       "0::/a\n",
       {{"a/memory.max", "100\n"}, {"a/memory.current", "200\n"}},
       0,
       100},
      {"version 1",
       kMeminfo,
       "11:cpu,cpuacct:/x\n4:memory:/a\n0::/\n",
       {{"memory/a/memory.limit_in_bytes", "600000\n"},
        {"memory/a/memory.usage_in_bytes", "200000\n"},
        {"memory/a/memory.stat",
         "inactive_file 1\ntotal_inactive_file 10000\ntotal_active_file 40000\n"},
        {"memory/memory.limit_in_bytes", "9223372036854771712\n"},
        {"memory/memory.usage_in_bytes", "700000\n"}},
       450000,
       600000},
      {"version 1 in a container, whose path is the host's",
       kMeminfo,
       "4:memory:/docker/1\n",
       {{"memory/memory.limit_in_bytes", "600000\n"}, {"memory/memory.usage_in_bytes", "100000\n"}},
       500000,
       600000},
      {"a group that leaves more than there is",
       kMeminfo,
       "0::/a\n",
       {{"a/memory.max", "9000000\n"}, {"a/memory.current", "0\n"}},
       kAvailable,
       9000000},
  };
  for (const MemoryCase& of : cases) {
    SCOPED_TRACE(of.name);
    const test::TempFolder folder;
    const MemoryFiles files = {folder.write("meminfo", of.meminfo),
                               folder.write("groups", of.groups), folder.path() / "mounts"};
    for (const auto& [name, text] : of.files) {
      const std::filesystem::path path = files.mounts / name;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << text;
    }
    EXPECT_EQ(available_memory(files), of.available);
    EXPECT_EQ(control_group_memory(files), of.limit);
  }
}

TEST(Memory, IsKnownOfThisMachine) {
  const auto available = available_memory();
  ASSERT_TRUE(available.has_value());
  EXPECT_GT(*available, 0U);
}

}  // namespace
}  // namespace dovetail::engine
