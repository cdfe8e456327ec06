#include "pipeline/sample/json_scan.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace dovetail::pipeline {
namespace {

using nlohmann::json;

// The events of the library's parser. Any false ends the reading.
class Events : public nlohmann::json_sax<json> {
 public:
  Events(const JsonScanLimits& limits, const std::function<void(const std::string&)>& on_key,
         JsonScanError& error)
      : limits_(limits), on_key_(on_key), error_(error) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }

  bool start_object(std::size_t) override { return open(); }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return value() && open(); }
  bool end_array() override {
    keys_.pop_back();
    return true;
  }
  bool key(string_t& name) override {
    if (++keys_.back() > limits_.most_keys) {
      return refuse(fmt::format("more than {} keys in one object", limits_.most_keys));
    }
    if (keys_.size() == 1) on_key_(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& exception) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error ...": the
    // place is the caller's to name, in the file's terms.
    std::string_view message = exception.what();
    const auto bracket = message.find("] ");
    if (bracket != std::string_view::npos) message.remove_prefix(bracket + 2);
    const auto colon = message.find(": ");
    if (message.starts_with("parse error at") && colon != std::string_view::npos) {
      message.remove_prefix(colon + 2);
    }
    error_.message = message;
    error_.at = position == 0 ? 0 : position - 1;
    return false;
  }

 private:
  bool refuse(std::string message) {
    error_.message = std::move(message);
    return false;
  }
  // A value outside of any object is not what a line may hold.
  bool value() { return !keys_.empty() || refuse("no object"); }
  bool open() {
    keys_.push_back(0);
    return keys_.size() <= static_cast<std::size_t>(limits_.most_depth) ||
           refuse(fmt::format("values nested more than {} deep", limits_.most_depth));
  }

  const JsonScanLimits& limits_;
  const std::function<void(const std::string&)>& on_key_;
  JsonScanError& error_;
  std::vector<std::size_t> keys_;  // of each open object or array
};

}  // namespace

bool scan_json_object(std::string_view text, const JsonScanLimits& limits,
                      const std::function<void(const std::string&)>& on_key, JsonScanError& error) {
  error = {};
  Events events(limits, on_key, error);
  const bool fine = json::sax_parse(text.begin(), text.end(), &events);
  error.at = std::min(error.at, text.size());
  return fine;
}

}  // namespace dovetail::pipeline
