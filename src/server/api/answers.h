// All answers that are under way.
//
// Ownership: owns the answers; used on the I/O thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/api/answer.h"
#include "server/api/answer_services.h"

namespace anabranch::server {

class Answers {
 public:
  // models, metrics, traces and slots must outlive it. The rest: see AnswerServices.
  Answers(ModelPool& models, WorkerPool& workers, Post post, const After& after, double timeout_s,
          Metrics& metrics, std::shared_ptr<ResponseContext> responses, mcp::AgentLimits agent_limits,
          bool share_states, TraceEraser& traces, Slots& slots);
  ~Answers();

  // Starts to answer a request. Its `held` is released when the body has been parsed.
  void start(AnswerKind kind, HttpRequest request, KeyUse use, std::shared_ptr<ResponseStream> out);
  // Stops the answer to the request of /v1/generate with this id and a key of this name, because its client
  // asks for it. False: there is no such request.
  bool stop(const std::string& id, const std::string& key_name);
  // Ends every answer with an error.
  void fail_all();
  // Pool for jobs that wait for MCP servers.
  WaitPool& mcp_workers() { return services_.mcp_workers; }

 private:
  // The task uses the answer, so it is declared after it and destroyed first.
  struct Running {
    template <class... Args>
    explicit Running(Args&&... args) : answer(std::forward<Args>(args)...) {}
    Answer answer;
    Task<> life;
  };

  Task<> run(uint64_t key, std::shared_ptr<const HttpRequest> request);
  void client_left(uint64_t key);
  Answer* find_generate(const std::string& id, const std::string& key_name);
  // Ends the answers whose time is over. Returns whether others have a deadline.
  bool end_late_ones();
  void fail(uint64_t key, const ApiError& error);

  AnswerServices services_;
  DeadlineWatch watch_;
  uint64_t next_key_ = 1;
  std::unordered_map<uint64_t, std::unique_ptr<Running>> running_;
  std::vector<std::unique_ptr<Running>> ended_;  // to be destroyed when none of their code is running
};

}  // namespace anabranch::server
