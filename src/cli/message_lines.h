#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace dovetail::cli {

// A message as typed. One in quotes is text, also where it begins with a slash.
struct TypedMessage {
  std::string text;
  bool quoted = false;
};

// Puts typed lines together: a line that ends in a backslash goes on in the next, and """ opens a
// block that goes to the next """ at the end of a line. A "line" with line breaks was pasted, and
// is kept as it is.
class MessageLines {
 public:
  // The message that ends with this line, if one does.
  std::optional<TypedMessage> add(std::string line);
  // Whether a message has begun.
  bool pending() const { return begun_; }
  void clear();

 private:
  std::string text_;
  std::size_t lines_ = 0;  // in text_
  bool begun_ = false, quoted_ = false;
};

}  // namespace dovetail::cli
