#include "serve/parameter_fields.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/sampling_table.h"

namespace dovetail::serve {
namespace {

using Name = std::string_view;

constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t kMaxN = 128;
constexpr std::int32_t kMaxPriority = 1000;
constexpr std::size_t kMaxStops = 32;
constexpr std::size_t kMaxStopBytes = 1024;
constexpr std::size_t kMaxStopIds = 256;
constexpr std::size_t kMaxLabelBytes = 512;
constexpr double kMaxTimeout = 365.0 * 24 * 3600;  // seconds

Problem read_seed(Name field, const Json& value, std::uint32_t, Request& request) {
  if (!value.is_number_integer()) {
    return problem(bad_field(field, "expected an integer of 64 bits, got {}", shown(value)));
  }
  request.sampling.seed = value.is_number_unsigned()
                              ? value.get<std::uint64_t>()
                              : static_cast<std::uint64_t>(value.get<std::int64_t>());
  return std::nullopt;
}

Problem read_logit_bias(Name field, const Json& value, std::uint32_t vocab, Request& request) {
  if (!value.is_object()) {
    return problem(
        bad_field(field, "expected an object from token id to bias, got {}", shown(value)));
  }
  request.sampling.logit_bias.clear();
  for (const auto& [key, bias] : value.items()) {
    TokenId id = -1;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (failure != std::errc() || end != key.data() + key.size() || id < 0 ||
        static_cast<std::uint32_t>(id) >= vocab) {
      return problem(bad_field(field, "{} is not a token id; expected \"0\" to \"{}\"",
                               shown(Json(key)), vocab - 1));
    }
    auto number = read_number(fmt::format("{}[\"{}\"]", field, key), bias, {-100.0, 100.0});
    if (!number) return std::move(number.error());
    request.sampling.logit_bias.emplace_back(id, *number);
  }
  return std::nullopt;
}

Problem read_stop_ids(Name field, const Json& value, std::uint32_t vocab, Request& request) {
  auto ids = read_token_ids(field, value, vocab, kMaxStopIds);
  if (!ids) return std::move(ids.error());
  request.stop_ids = *std::move(ids);
  return std::nullopt;
}

// Seconds; what is less than a millisecond is one.
Problem read_timeout(Name field, const Json& value, std::uint32_t, Request& request) {
  const auto seconds = read_number(field, value, {0.0, kMaxTimeout, true});
  if (!seconds) return seconds.error();
  const double milliseconds = std::ceil(static_cast<double>(*seconds) * 1000.0);
  request.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(milliseconds));
  return std::nullopt;
}

constexpr std::uint16_t kGenerated = kOutputs | kInputLines;
constexpr Parameter kParameters[] = {
    {"logit_bias", kGenerated, read_logit_bias},
    {"seed", kGenerated, read_seed},
    {"n", kBoth | kInputLines, Parameter::Whole{&Request::n, 1, kMaxN}},
    {"min_tokens", kGenerated, Parameter::Whole{&Request::min_tokens, 0, kMost}},
    {"ignore_eos", kGenerated, &Request::ignore_eos},
    {"stop", kGenerated,
     [](Name f, const Json& v, std::uint32_t, Request& r) { return read_stop(f, v, r); }},
    {"stop_token_ids", kGenerated, read_stop_ids},
    {"logprobs", kCompletions | kInputLines,
     Parameter::Whole{&Request::logprobs, 0, kMaxTopLogprobs}},
    {"prompt_logprobs", kBoth, Parameter::Whole{&Request::prompt_logprobs, 0, kMaxTopLogprobs}},
    {"priority", kGenerated | kCohereReranks,
     Parameter::Whole{&Request::priority, -kMaxPriority, kMaxPriority}},
    {"timeout", kGenerated, read_timeout},
    // Who shares the engine; no answer depends on it.
    {"user", kAllButOllama | kInputLines, &Request::tenant},
    {"cache_salt", kGenerated, &Request::cache_salt},
};

std::vector<Parameter> all_parameters() {
  std::vector<Parameter> all;
  for (const SamplingRow& row : kSamplingRows) {
    all.push_back({row.name, kGenerated, &row});
    if (!row.http_alias.empty()) all.push_back({row.http_alias, kGenerated, &row});
  }
  all.insert(all.end(), std::begin(kParameters), std::end(kParameters));
  return all;
}

// Sets what a kind of parameter speaks of.
struct Setter {
  Name field;
  const Json& value;
  std::uint32_t vocab;
  Request& request;

  Problem operator()(const SamplingRow* row) const {
    if (!row->whole()) {
      const auto number = read_number(field, value, {row->least, row->most, row->least_excluded});
      if (!number) return number.error();
      set_sampling_value(request.sampling, *row, *number);
      return std::nullopt;
    }
    const auto least = static_cast<std::int64_t>(row->minus_one ? -1 : row->least);
    const auto number = read_integer(field, value, least, static_cast<std::int64_t>(row->most));
    if (!number) return number.error();
    const auto given = static_cast<double>(*number);
    set_sampling_value(request.sampling, *row, given < row->least ? row->neutral() : given);
    return std::nullopt;
  }
  Problem operator()(const Parameter::Whole& whole) const {
    const auto number = read_integer(field, value, whole.least, whole.most);
    if (!number) return number.error();
    request.*whole.member = static_cast<std::int32_t>(*number);
    return std::nullopt;
  }
  Problem operator()(bool Request::*member) const {
    const auto on = read_bool(field, value);
    if (!on) return on.error();
    request.*member = *on;
    return std::nullopt;
  }
  Problem operator()(std::string Request::*member) const {
    auto label = read_string(field, value);
    if (!label) return std::move(label.error());
    if (label->size() > kMaxLabelBytes) {
      return problem(bad_field(field, "{} bytes are too long; expected at most {}", label->size(),
                               kMaxLabelBytes));
    }
    request.*member = *std::move(label);
    return std::nullopt;
  }
  Problem operator()(Parameter::Read read) const { return read(field, value, vocab, request); }
};

}  // namespace

std::span<const Parameter> parameters() {
  static const std::vector<Parameter> all = all_parameters();
  return all;
}

const Parameter* find_parameter(std::uint16_t routes, std::string_view name) {
  for (const Parameter& parameter : parameters())
    if (parameter.name == name && (parameter.routes & routes) != 0) return &parameter;
  return nullptr;
}

Problem read_parameter(const Parameter& parameter, std::string_view field, const Json& value,
                       std::uint32_t vocab_size, Request& request) {
  return std::visit(Setter{field, value, vocab_size, request}, parameter.kind);
}

Problem read_stop(std::string_view field, const Json& value, Request& request) {
  const Json list = value.is_array() ? value : Json::array({value});
  if (list.size() > kMaxStops) {
    return problem(bad_field(field, "{} stop strings are too many; expected at most {}",
                             list.size(), kMaxStops));
  }
  std::vector<std::string> stops;
  for (const Json& element : list) {
    if (!element.is_string()) {
      return problem(
          bad_field(field, "expected a string or an array of strings, got {}", shown(element)));
    }
    const auto& text = element.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes) {
      return problem(bad_field(field, "{} has {} bytes; expected 1 to {}", shown(element),
                               text.size(), kMaxStopBytes));
    }
    stops.push_back(text);
  }
  request.stop = std::move(stops);
  return std::nullopt;
}

}  // namespace dovetail::serve
