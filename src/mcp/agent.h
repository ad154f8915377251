// Rules for a model that uses tools on its own: limits of a run, and which calls need the user's consent.
// Plain data and pure functions, for every front end.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "mcp/client.h"

namespace anabranch::mcp {

// Limits of one run: from a user's message to the answer.
struct AgentLimits {
  int steps = 16;                   // answers of the model
  int calls = 64;                   // tool calls, including refused ones
  double seconds = 600;             // without the time that the user takes to consent
  int tokens = 32768;               // sampled by the model, including thoughts
  size_t output_bytes = 512 << 10;  // total text of all results
};

// How much of its limits a run has used.
class AgentBudget {
 public:
  // now: seconds of any monotonic clock.
  AgentBudget(const AgentLimits& limits, double now) : limits_(limits), began_(now) {}
  void add_step(int tokens) {
    steps_++;
    tokens_ += tokens;
  }
  void add_call(size_t output_bytes) {
    calls_++;
    bytes_ += output_bytes;
  }
  void add_pause(double seconds) { began_ += seconds; }
  // Why the model may not continue, as a clause such as "it took more than 16 steps"; none: it may continue.
  std::optional<std::string> exceeded(double now) const;
  double seconds_left(double now) const { return began_ + limits_.seconds - now; }
  // The most bytes for the text of the next result.
  size_t bytes_left() const { return bytes_ < limits_.output_bytes ? limits_.output_bytes - bytes_ : 0; }
  int steps() const { return steps_; }
  int calls() const { return calls_; }

 private:
  const AgentLimits limits_;
  double began_;
  int steps_ = 0, calls_ = 0;
  int64_t tokens_ = 0;
  size_t bytes_ = 0;
};

// The failed calls of a run, as "NAME ARGUMENTS", for noticing a model that repeats one of them unchanged: it
// would do so until it reaches a limit. A call that succeeds clears them, because it may have removed the
// cause of their failure.
class FailedCalls {
 public:
  void add(const std::string& call, bool failed) {
    if (failed)
      calls_.insert(call);
    else
      calls_.clear();
  }
  bool contains(const std::string& call) const { return calls_.contains(call); }

 private:
  std::set<std::string> calls_;
};

enum class Permission { ask, allow, refuse };

// The user's consents. A consent is to a tool as it is described now: when its description or schema changes,
// the user is asked again.
class Consent {
 public:
  // Consents to "SERVER" (all its tools) or "SERVER.TOOL".
  void allow(const std::string& name) { named_.insert(name); }
  // The user's decision for the rest of the conversation: allow or refuse.
  void remember(const Tool& tool, Permission permission);
  Permission of(const Tool& tool) const;

 private:
  std::set<std::string> named_;
  std::map<std::string, Permission> remembered_;  // keyed by the whole definition
};

// "require_approval" of the Responses API: says which calls need the user's approval.
class ApprovalRule {
 public:
  // "always", "never", or {"always": {"tool_names": [...]}, "never": {"tool_names": [...]}}; null: always.
  // Errors: invalid.
  static Result<ApprovalRule> read(const Json& require_approval);
  bool needs_approval(const std::string& tool) const;

 private:
  bool always_ = true;  // for tools that are not named
  std::set<std::string> always_of_, never_of_;
};

}  // namespace anabranch::mcp
