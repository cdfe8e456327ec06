#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "serve/parameter_fields.h"
#include "serve/request_fields.h"

namespace dovetail::serve {

// A row of the table of fields: how a value is read into the draft. What is null is not read, but
// for limits of tokens.
struct Field {
  std::string_view name;
  Routes routes;
  Problem (*read)(std::string_view field, const Json& value, Draft& draft);
};

// The rows, by what they are about.
std::span<const Field> output_fields();  // what else says what outputs are, and how they are sent
std::span<const Field> completion_fields();
std::span<const Field> chat_fields();
std::span<const Field> message_fields();
std::span<const Field> responses_fields();
std::span<const Field> ollama_fields();
std::span<const Field> llama_fields();   // llama.cpp's own form
std::span<const Field> pooled_fields();  // embeddings and ranking

inline constexpr std::int32_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

// Readers that rows share.
template <class T, class To>
Problem store(Outcome<T> value, To& to) {
  if (!value) return std::move(value.error());
  to = static_cast<To>(std::move(*value));
  return std::nullopt;
}

template <class To>
Problem store_int(std::string_view field, const Json& value, std::int32_t least, std::int32_t most,
                  To& to) {
  auto number = read_integer(field, value, least, most);
  if (!number) return std::move(number.error());
  to = static_cast<std::int32_t>(*number);
  return std::nullopt;
}

// -1 and null say "no limit".
Problem read_max_tokens(std::string_view field, const Json& value, std::optional<std::int32_t>& to);

// Inputs of one request for embeddings, as OpenAI bounds them, and documents of one to rank.
std::size_t most_inputs(const Draft& draft);

// How hard a model reasons, and for how many tokens at most.
Problem read_effort(std::string_view field, const Json& value, Draft& draft);
Problem read_reasoning_budget(std::string_view field, const Json& value, Draft& draft);
// How much it says; where the template does not read that, the field is ignored.
Problem read_verbosity(std::string_view field, const Json& value, Draft& draft);
// A name that the model answers to.
Problem read_model(std::string_view field, const Json& value, Draft& draft);

// The samplers that act, as llama.cpp has them: an array of names, or a letter for each in a
// string.
Problem read_samplers(std::string_view field, const Json& value, Draft& draft);

// What the output must be, unless another field has said so.
Problem store_format(Outcome<std::optional<OutputFormat>> asked, Draft& draft);

// The same of an object with "type" and what belongs to it.
Problem read_flat_form(std::string_view field, const Json& value, Draft& draft);

// A member of a field that is an object.
struct Member {
  std::string_view name;
  Problem (*read)(std::string_view field, const Json& value, Draft& draft);
};
// Reads an object's members, each under its path; null is no member, and others are unknown fields.
Problem read_members(std::string_view field, const Json& value, std::span<const Member> members,
                     Draft& draft);

// A string, an array of at most `most` strings, an array of ids, or an array of at most `most`
// arrays of ids.
Problem read_prompts(std::string_view field, const Json& value, std::size_t most, Draft& draft);

}  // namespace dovetail::serve
