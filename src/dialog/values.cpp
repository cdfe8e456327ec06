#include "dialog/values.h"

#include <nlohmann/json.hpp>

#include "dialog/texts.h"

namespace dovetail::dialog {

namespace {

constexpr std::size_t kLongestWord = 1024;  // bytes; longer ones are of no language

bool is_word_char(char c) { return is_name_char(c) || c == '.' || c == '+'; }

// A value without quotes, as JSON.
void append_word(std::string& json, std::string_view word) {
  if (word == "True") {
    json += "true";
  } else if (word == "False") {
    json += "false";
  } else if (word == "None") {
    json += "null";
  } else if (nlohmann::json::accept(word)) {
    json += word;
  } else {
    json += '"';
    append_escaped(json, word);
    json += '"';
  }
}

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
  if (!word_.empty()) append_word(json, word_);
  word_.clear();
}

std::size_t BareReader::take(std::string_view piece, std::string& json) {
  std::size_t i = 0;
  while (i < piece.size()) {
    const std::string_view rest = piece.substr(i);
    if (rest.front() == kTokenOpen) {
      const std::size_t close = rest.find(kTokenClose);
      if (close == std::string_view::npos && rest.size() < kLongestWord) break;
      const std::size_t size = close < kLongestWord ? close + 1 : 1;
      take_token(rest.substr(0, size), json);
      i += size;
      continue;
    }
    if (place_ != Place::kString && rest.front() == '}' && open_.empty()) {
      if (place_ == Place::kValue && !word_.empty()) append_word(json, word_);
      json += begun_ ? "}" : "{}";
      place_ = Place::kDone;
      break;
    }
    take_byte(rest.front(), json);
    ++i;
  }
  return i;
}

void BareReader::take_token(std::string_view token, std::string& json) {
  if (token != quote_) return;
  if (place_ == Place::kString) {
    json += '"';
    place_ = Place::kValue;
  } else if (place_ == Place::kValue) {
    begin_value(json);
    json += '"';
    place_ = Place::kString;
  }
}

void BareReader::begin_value(std::string& json) {
  if (!in_object()) json += std::exchange(comma_, {});
}

void BareReader::open(char opening, char closing, std::string& json) {
  begin_value(json);
  json += opening;
  open_ += closing;
  place_ = closing == '}' ? Place::kKey : Place::kValue;
}

void BareReader::take_byte(char c, std::string& json) {
  if (place_ == Place::kString) {
    append_escaped(json, {&c, 1});
    return;
  }
  if (place_ == Place::kKey && c == ':') {
    json += begun_ ? "" : "{";
    begun_ = true;
    json += std::exchange(comma_, {}) + '"';
    append_escaped(json, word_);
    json += "\":";
    word_.clear();
    place_ = Place::kValue;
  } else if (c == ',' || c == '}' || c == ']') {
    if (place_ == Place::kValue && !word_.empty()) {
      begin_value(json);
      append_word(json, word_);
    }
    word_.clear();
    comma_ = c == ',' ? "," : "";
    if (c != ',' && !open_.empty()) {
      json += open_.back();
      open_.pop_back();
    }
    place_ = c == ',' && in_object() ? Place::kKey : Place::kValue;
  } else if (place_ == Place::kValue && (c == '{' || c == '[')) {
    open(c, c == '{' ? '}' : ']', json);
  } else if (!is_space(c) && word_.size() < kLongestWord) {
    word_ += c;
  }
}

}  // namespace dovetail::dialog
