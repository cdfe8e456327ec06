#pragma once

#include <cstdint>

namespace dovetail::pipeline {

enum class OpenMode : std::uint8_t {
  kCreate,    // a new run; an error where there is one
  kResume,    // a run that is there
  kReadOnly,  // to look at one, also while it is being made by another process
  kShare,     // as one of several processes that make it, begun where there is none (PostgreSQL)
};

}  // namespace dovetail::pipeline
