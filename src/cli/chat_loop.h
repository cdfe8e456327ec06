#pragma once

#include <memory>

#include "cli/chat_session.h"
#include "cli/line_editor.h"

namespace dovetail::cli {

// Reads messages and commands until the end and returns the exit code. With an editor lines are
// put together to messages and kept in the history; without one each line of the standard input is
// a message. An error of a message or command ends a chat that is not interactive.
Result<int> talk(ChatSession& session, std::unique_ptr<LineEditor> editor);

}  // namespace dovetail::cli
