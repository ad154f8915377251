// Requests that wait for their answers, whichever thread reads these.
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
  // Registers a request; its id. Errors: io, once fail_all was called.
  Result<int64_t> add(const std::string& method);
  // Waits for the answer of a request, which is forgotten then. None: the time is over, or it was cancelled.
  std::optional<Result<Json>> wait(int64_t id, double until, const Cancelled& cancelled);

  // A result or an error. False: nobody waits for this id.
  bool take(const std::string& server, const Message& message);
  // All that wait get this error; with `for_good` also all that come.
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
