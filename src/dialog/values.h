#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace dovetail::dialog {

// Finds where a JSON object or list ends in a text that comes in pieces.
class JsonScanner {
 public:
  // Takes bytes up to the end of the value; how many. The first byte must open the value.
  std::size_t take(std::string_view piece);
  bool done() const { return begun_ && depth_ == 0; }

 private:
  std::size_t depth_ = 0;
  bool begun_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
};

// Turns the inside of Python's call brackets, name=value, ..., which comes in pieces, into a JSON
// object.
class PythonReader {
 public:
  // Takes bytes up to the bracket that closes the call, which it leaves; appends JSON.
  std::size_t take(std::string_view piece, std::string& json);
  bool done() const { return place_ == Place::kDone; }

 private:
  enum class Place { kBegin, kKey, kValue, kString, kDone };

  // False where the byte closes the call.
  bool take_byte(char c, std::string& json);
  void take_value_byte(char c, std::string& json);
  void take_string_byte(char c, std::string& json);
  void end_word(std::string& json);

  Place place_ = Place::kBegin;
  std::string word_;  // a key, or a bare value: a number, True, ...
  std::string open_;  // the brackets that are open
  std::string hex_;   // digits of \xhh
  char quote_ = 0;
  bool escaped_ = false;
  bool in_hex_ = false;
  bool any_ = false;
};

// Turns name:value, ... with names without quotes and strings between `quote`s, which comes in
// pieces, into a JSON object. A control token stands between kTokenOpen and kTokenClose.
class BareReader {
 public:
  explicit BareReader(std::string quote = {}) : quote_(std::move(quote)) {}

  // Takes bytes up to the brace that closes the object, which it leaves, and up to a token that is
  // cut; appends JSON.
  std::size_t take(std::string_view piece, std::string& json);
  bool done() const { return place_ == Place::kDone; }

 private:
  enum class Place { kKey, kValue, kString, kDone };

  void take_byte(char c, std::string& json);
  // Takes the quote; another token is left out.
  void take_token(std::string_view token, std::string& json);
  void begin_value(std::string& json);
  void open(char opening, char closing, std::string& json);
  bool in_object() const { return open_.empty() || open_.back() == '}'; }

  std::string quote_;
  Place place_ = Place::kKey;
  std::string word_;   // a name, or a value without quotes
  std::string open_;   // what closes the values that are open
  std::string comma_;  // ahead of the next name or item
  bool begun_ = false;
};

}  // namespace dovetail::dialog
