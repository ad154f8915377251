// Conversations in files, for `/save` and `/load` of `chat`.
#pragma once

#include <string>

#include "base/json.h"

namespace anabranch::cli {

// Writes {"messages": [...]}, readable by its owner only. Errors: invalid (the file exists already), io.
Result<void> save_messages(const std::string& path, const Json& messages);
// Reads what save_messages wrote, a request of the chat API, or an array of messages. Errors: not_found, io,
// invalid (with what is wrong).
Result<Json> load_messages(const std::string& path);

}  // namespace anabranch::cli
