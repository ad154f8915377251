// Runs requests for embeddings: their texts go to the engine a few at a time, beside answers.
//
// Ownership: owns the requests; used on the I/O thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "server/api/embedding_request.h"
#include "server/api/model_pool.h"
#include "server/http/api_keys.h"
#include "server/http/types.h"

namespace anabranch::server {

// An embedding of unit length; dimensions: its first so many values, 0: all.
std::vector<float> normalised(std::vector<float> values, int dimensions);
// Little-endian 32-bit floats in base64, as OpenAI's encoding_format "base64".
std::string to_base64(const std::vector<float>& values);

class Embedder {
 public:
  // Monotonic seconds, and seconds. load_s: as of AnswerHead; allowed_s: from the start to the end, 0: no
  // limit.
  struct Times {
    double started = 0, load_s = 0, allowed_s = 0;
  };

  Embedder(Post post, After after) : post_(std::move(post)), after_(std::move(after)) {}

  void start(ModelLease model, EmbeddingRequest request, KeyUse use, const Times& times,
             std::shared_ptr<ResponseStream> out);
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
    std::vector<RequestId> ids;  // of those submitted, in order
    std::vector<bool> done;      // of these
    size_t running = 0;
    int tokens = 0;
  };

  void submit_some(uint64_t key);
  void receive(uint64_t key, size_t index, const Event& event);
  void fail(uint64_t key, const ApiError& error);
  void cancel(const Job& job);
  static Json answer(Job& job);

  const Post post_;
  const After after_;
  uint64_t next_key_ = 1;
  std::unordered_map<uint64_t, Job> jobs_;
};

}  // namespace anabranch::server
