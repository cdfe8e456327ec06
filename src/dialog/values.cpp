#include "dialog/values.h"

#include <nlohmann/json.hpp>

#include "dialog/texts.h"

namespace dovetail::dialog {

namespace {

constexpr std::size_t kLongestWord = 1024;  // bytes; longer ones are of no language

bool is_word_char(char c) { return is_name_char(c) || c == '.' || c == '+'; }

}  // namespace

std::size_t JsonScanner::take(std::string_view piece) {
  std::size_t i = 0;
  while (i < piece.size() && !done()) {
    const char c = piece[i++];
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_) {
      escaped_ = c == '\\';
      if (c == '"') in_string_ = false;
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
      begun_ = true;
    } else if ((c == '}' || c == ']') && depth_ > 0) {
      --depth_;
    }
  }
  return i;
}

std::size_t PythonReader::take(std::string_view piece, std::string& json) {
  std::size_t i = 0;
  while (i < piece.size() && take_byte(piece[i], json)) ++i;
  return i;
}

bool PythonReader::take_byte(char c, std::string& json) {
  if (place_ == Place::kDone) return false;
  if (place_ == Place::kString) {
    take_string_byte(c, json);
    return true;
  }
  if (place_ == Place::kValue) {
    if (is_word_char(c)) {
      if (word_.size() < kLongestWord) word_ += c;
      return true;
    }
    end_word(json);
    if (!open_.empty() || (c != ')' && c != ',')) {
      take_value_byte(c, json);
      return true;
    }
  }
  if (c == ')') {
    json += any_ ? "}" : "{}";
    place_ = Place::kDone;
    return false;
  }
  if (c == ',') {
    place_ = Place::kKey;
    word_.clear();
  } else if (c == '=') {
    json += any_ ? ",\"" : "{\"";
    append_escaped(json, word_);
    json += "\":";
    word_.clear();
    any_ = true;
    place_ = Place::kValue;
  } else if (!is_space(c) && word_.size() < kLongestWord) {
    word_ += c;
    place_ = Place::kKey;
  }
  return true;
}

void PythonReader::take_value_byte(char c, std::string& json) {
  if (c == '"' || c == '\'') {
    json += '"';
    quote_ = c;
    place_ = Place::kString;
  } else if (c == '(' || c == '[') {
    json += '[';
    open_ += ']';
  } else if (c == '{') {
    json += '{';
    open_ += '}';
  } else if (c == ')' || c == ']' || c == '}') {
    if (open_.empty()) return;
    json += open_.back();
    open_.pop_back();
  } else if (c == ',' || c == ':') {
    json += c;
  }
}

void PythonReader::take_string_byte(char c, std::string& json) {
  if (in_hex_) {
    hex_ += c;
    if (hex_.size() < 2) return;
    json += "\\u00" + hex_;
    hex_.clear();
    in_hex_ = false;
  } else if (escaped_) {
    escaped_ = false;
    if (c == 'x') {
      in_hex_ = true;
    } else if (std::string_view("nrtbfu\"\\/").find(c) != std::string_view::npos) {
      json += {'\\', c};
    } else if (c != '\n') {
      if (c != '\'') json += "\\\\";
      append_escaped(json, {&c, 1});
    }
  } else if (c == '\\') {
    escaped_ = true;
  } else if (c == quote_) {
    json += '"';
    place_ = Place::kValue;
  } else {
    append_escaped(json, {&c, 1});
  }
}

void PythonReader::end_word(std::string& json) {
  if (word_.empty()) return;
  if (word_ == "True") {
    json += "true";
  } else if (word_ == "False") {
    json += "false";
  } else if (word_ == "None") {
    json += "null";
  } else if (nlohmann::json::accept(word_)) {
    json += word_;
  } else {
    json += '"';
    append_escaped(json, word_);
    json += '"';
  }
  word_.clear();
}

}  // namespace dovetail::dialog
