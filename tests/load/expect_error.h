#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/result.h"

namespace dovetail::load {

// The result is an error of one line that has both parts.
template <class T>
void expect_error(const Result<T>& result, const std::string& file, const std::string& part) {
  ASSERT_FALSE(result.has_value()) << "expected: " << part;
  const std::string& message = result.error().message;
  EXPECT_THAT(message, testing::HasSubstr(file));
  EXPECT_THAT(message, testing::HasSubstr(part));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_NE(result.error().kind, ErrorKind::kInternal) << message;
}

}  // namespace dovetail::load
