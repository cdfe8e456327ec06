#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace dovetail::engine {

// Where the system says what memory there is.
struct MemoryFiles {
  std::filesystem::path meminfo = "/proc/meminfo";
  std::filesystem::path groups = "/proc/self/cgroup";  // of which this process is a member
  std::filesystem::path mounts = "/sys/fs/cgroup";     // of versions 1 and 2
};

// The least limit of the control groups of this process, such as a container's; the greatest number
// where there is none.
std::uint64_t control_group_memory(const MemoryFiles& files = {});

// Bytes that this process may take beside what it has before the system swaps or ends processes:
// MemAvailable, or less where a control group leaves less. Pages of files that can be read again
// count as free. Nothing where the system does not say.
std::optional<std::uint64_t> available_memory(const MemoryFiles& files = {});

}  // namespace dovetail::engine
