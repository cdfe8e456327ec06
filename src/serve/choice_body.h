#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "serve/answers.h"

namespace dovetail::serve {

// A body of OpenAI's API with a list of choices: `fill` writes what a choice says; its logprobs and
// finish reason stand behind that.
std::vector<std::string> body_of_choices(
    Answers& answers, std::string_view object,
    const std::function<void(ChoiceState& choice, Json& json)>& fill);

}  // namespace dovetail::serve
