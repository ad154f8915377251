// Answers llama-server's /props and /slots. Reference: llama.cpp's tools/server/README.md.
#pragma once

#include "base/json.h"
#include "server/api/model_pool.h"

namespace anabranch::server {

// entry: a model that was loaded once, and may be unloaded now.
Json props_json(const ModelPool::Entry& entry);
// One entry for each sequence that may run at the same time; those in use come first.
Json slots_json(const ModelPool::Entry& entry);

// vLLM's page about the tokenizer, which evaluation programs read. chat_template: its source; empty: none.
Json tokenizer_json(const ModelFacts& facts, const std::string& chat_template);

}  // namespace anabranch::server
