// Runs requests for embeddings: their texts go to the engine a few at a time, alongside answers.
//
// Ownership: owns the requests; used on the I/O thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "server/api/deadline.h"
#include "server/api/embedding_request.h"
#include "server/api/model_pool.h"
#include "server/http/api_keys.h"
#include "server/http/types.h"

namespace anabranch::server {

// Scales the embedding to unit length. dimensions: the number of leading values to keep first; 0: all.
std::vector<float> normalised(std::vector<float> values, int dimensions);

// The answer to a request of Ollama's API without a text.
Json no_embeddings(EmbeddingFormat format, const std::string& model);

class Embedder {
 public:
  // started: monotonic seconds; load_s: see AnswerHead.
  struct Times {
    double started = 0, load_s = 0;
    Deadline deadline;
  };

  Embedder(Post post, const After& after)
      : post_(std::move(post)), watch_(after, [this] { return end_late_ones(); }) {}

  // key: identifies the request, for forget().
  void start(uint64_t key, ModelLease model, EmbeddingRequest request, KeyUse use, const Times& times,
             std::shared_ptr<ResponseStream> out, std::shared_ptr<AnswerNote> note);
  // The client of the request has left. Unknown keys are ignored.
  void forget(uint64_t key);
  // Ends every request with an error.
  void cancel_all();

 private:
  struct Job {
    ModelLease model;
    EmbeddingRequest request;
    KeyUse use;
    Times times;
    std::shared_ptr<ResponseStream> out;
    std::vector<std::vector<float>> embeddings;
    std::vector<RequestId> ids;  // of the submitted texts, in order
    std::vector<bool> done;      // one for each of these
    size_t running = 0;
    std::shared_ptr<AnswerNote> note;  // counts the tokens so far
  };

  void submit_some(uint64_t key);
  void receive(uint64_t key, size_t index, const Event& event);
  void fail(uint64_t key, const ApiError& error);
  void cancel(const Job& job);
  bool end_late_ones();
  static Json ranking(const Job& job);
  static Json answer(Job& job);

  const Post post_;
  DeadlineWatch watch_;
  std::unordered_map<uint64_t, Job> jobs_;
};

}  // namespace anabranch::server
