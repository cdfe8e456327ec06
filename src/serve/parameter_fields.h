#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "base/sampling_table.h"
#include "dovetail/request.h"
#include "serve/api_error.h"
#include "serve/json_input.h"

namespace dovetail::serve {

// Where a field may stand: routes, and lines of input files.
enum Routes : std::uint16_t {
  kNowhere = 0,
  kCompletions = 1,
  kChats = 2,
  kEmbeddings = 4,
  kReranks = 8,
  kMessages = 16,                 // Anthropic's
  kBoth = kCompletions | kChats,  // of OpenAI, which can ask for several choices
  kResponses = 32,
  kOllamaChats = 64,
  kOllamaGenerates = 128,
  kOllamaEmbeds = 256,
  kOllamaEmbeddings = 512,
  kOllama = kOllamaChats | kOllamaGenerates | kOllamaEmbeds | kOllamaEmbeddings,
  kDialogs = kChats | kMessages | kResponses,
  kLlamaCompletions = 4096,  // llama.cpp's
  kLlamaInfills = 8192,
  kLlama = kLlamaCompletions | kLlamaInfills,
  kOutputs = kCompletions | kDialogs | kLlama,
  kCohereReranks = 2048,
  kAllReranks = kReranks | kCohereReranks,
  kAllButOllama = kOutputs | kEmbeddings | kAllReranks,
  kAll = kAllButOllama | kOllama,
  kInputLines = 1024
};

inline constexpr std::int32_t kMaxTopLogprobs = 20;

// A field whose value is a parameter of Request, and nothing else: how it is read.
struct Parameter {
  struct Whole {
    std::int32_t Request::*member;
    std::int32_t least, most;
  };
  // What takes more than a range; ids of tokens are below `vocab_size`.
  using Read = Problem (*)(std::string_view field, const Json& value, std::uint32_t vocab_size,
                           Request& request);

  std::string_view name;
  std::uint16_t routes;  // Routes
  // A number that says how tokens are drawn, another number, a switch, a short text, or a function.
  std::variant<const SamplingRow*, Whole, bool Request::*, std::string Request::*, Read> kind;
};

// The rows, those of the table of sampling parameters first.
std::span<const Parameter> parameters();
// Null: there is none of this name there.
const Parameter* find_parameter(std::uint16_t routes, std::string_view name);

// Sets what a parameter speaks of. `field` is its name in messages.
Problem read_parameter(const Parameter& parameter, std::string_view field, const Json& value,
                       std::uint32_t vocab_size, Request& request);

// Texts that end an output, one or an array of them.
Problem read_stop(std::string_view field, const Json& value, Request& request);

}  // namespace dovetail::serve
