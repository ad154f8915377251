// Requests that wait for their answers. Any thread may read the answers.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "mcp/connection.h"
#include "mcp/message.h"

namespace anabranch::mcp {

// Thread-safe.
class PendingRequests {
 public:
  // Registers a request and returns its id. Errors: io, after fail_all(..., true).
  Result<int64_t> add(const std::string& method);
  // Waits for the answer to a request and forgets the request. None: the time is over, or it was cancelled.
  std::optional<Result<Json>> wait(int64_t id, double until, const Cancelled& cancelled);

  // Delivers a result or an error. False: nobody waits for this id.
  bool take(const std::string& server, const Message& message);
  // Fails all waiting requests with this error; with `for_good` also all later ones.
  void fail_all(const Error& error, bool for_good);
  bool failed() const;

 private:
  struct Waiting {
    std::string method;
    std::optional<Result<Json>> answer;
  };

  mutable std::mutex mutex_;
  std::condition_variable answered_;
  std::map<int64_t, Waiting> waiting_;
  std::optional<Error> failure_;
  int64_t next_ = 1;
};

}  // namespace anabranch::mcp
