// Answers of the Responses API that clients may refer to later ("store": true), in memory.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/json.h"

namespace anabranch::server {

struct StoredResponse {
  std::string id;
  Json response;     // as it was sent
  Json input_items;  // of its request, each with an id
  Json messages;     // the conversation for a chat template, with the answer, without "instructions"
  size_t bytes = 0;  // of all three as text
};

// Keeps the newest, up to limits of number and size. Thread-safe.
class ResponseStore {
 public:
  static constexpr size_t kMaxResponses = 4096, kMaxBytes = 128 << 20;

  void put(StoredResponse response);
  std::shared_ptr<const StoredResponse> find(const std::string& id);
  bool erase(const std::string& id);

 private:
  using Order = std::list<std::shared_ptr<const StoredResponse>>;  // oldest first
  void drop(Order::iterator at);

  std::mutex mutex_;
  Order order_;
  std::unordered_map<std::string, Order::iterator> by_id_;
  size_t bytes_ = 0;
};

}  // namespace anabranch::server
