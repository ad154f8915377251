// llama-server's fields "timings" and "prompt_progress", which OpenAI's routes send, too.
#pragma once

#include "base/json.h"
#include "engine/engine.h"

namespace anabranch::server {

// Counts, times and speeds, as llama-server names them.
Json timings_json(const Usage& usage);
// "prompt_progress" of a stream. usage: that of the prompt. read: prompt tokens that are in the KV cache.
Json progress_json(const Usage& usage, int read, double seconds);

}  // namespace anabranch::server
