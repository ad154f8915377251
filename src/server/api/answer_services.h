// Services that all answers of a server share.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>

#include "base/worker_pool.h"
#include "server/api/embedder.h"
#include "server/api/llama/slots.h"
#include "server/api/metrics.h"
#include "server/api/model_pool.h"
#include "server/api/read_ahead.h"
#include "server/api/responses/request.h"
#include "server/api/trace_eraser.h"
#include "server/api/wait_pool.h"
#include "server/http/types.h"

namespace anabranch::server {

// Used on the I/O thread. Other threads use the pools, and copies of `post`: they may still call it after
// this object is destroyed.
struct AnswerServices {
  ModelPool& models;
  WorkerPool& workers;  // for short requests
  const Post post;
  const double timeout_s;  // for each request, from its arrival to the end of its answer; 0: no limit
  Metrics& metrics;
  const std::shared_ptr<ResponseContext> responses;
  const mcp::AgentLimits agent_limits;
  const bool share_states;  // other workers may fetch the cached states of this one
  TraceEraser& traces;
  Slots& slots;
  Embedder embedder;
  ReadAhead ahead;
  std::mt19937_64 random;  // for ids and seeds
  double usual_s = 0;      // average time from arrival to end of the latest answers
  // To be called when an answer gets a deadline.
  std::function<void()> watch_deadlines;
  // Whether a request of /v1/generate with this id is running for the key of this name.
  std::function<bool(const std::string& id, const std::string& key_name)> runs_generate;

  // Pools, which keys and networks share fairly. close_pools() must be called before they are destroyed.
  // grammar_workers make the texts of grammars. keep_workers store conversations, and may wait for seconds
  // while another process locks the database.
  WorkerPool grammar_workers{{.name = "grammar texts", .threads = 2, .per_client = 1}},
      keep_workers{{.name = "conversations"}};
  // Requests that continue stored conversations, which may be long.
  WorkerPool stored_workers{{.name = "stored requests", .threads = 4, .per_client = 2}};
  // Long requests have a pool of their own, so short ones never wait for them. Requests of large_bytes or
  // more leave one of its two threads to the others.
  WorkerPool long_workers{
      {.name = "long requests", .threads = 2, .background = true, .large_bytes = 2u << 20}};
  // mcp_workers wait for MCP servers, which may take a minute to list their tools or to run a call.
  // image_workers wait for web servers that have images, which may never answer.
  WaitPool mcp_workers{{.name = "tools"}},
      image_workers{{.name = "images", .threads = 32, .per_owner = 8, .per_place = 4}};

  void close_pools() {
    for (WaitPool* pool : {&image_workers, &mcp_workers}) pool->close();
    for (WorkerPool* pool : {&long_workers, &stored_workers, &grammar_workers, &keep_workers}) pool->close();
  }
};

}  // namespace anabranch::server
