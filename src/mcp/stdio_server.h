// A server of MCP: offers our own tools over standard input and output.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace anabranch::mcp {

// A running call, as its tool sees it.
struct ServedCall {
  Json arguments;                      // an object, not checked against the schema
  const std::atomic<bool>& cancelled;  // nobody waits for the result any more
  // Reports progress to the client, if the client asked for it. done: never less than before.
  std::function<void(double done, const std::string& message)> progress;
};

struct ServedTool {
  std::string name, title, description;
  Json input_schema;  // an object
  bool read_only = true;
  // Called on a thread of its own, several calls at a time. Text and errors are for the client's model.
  std::function<Result<std::string>(const ServedCall& call)> run;
};

// Serves until the input ends, reading fails, or `stop` returns true (called after a signal). Nothing else
// may use the two files. A message of more than 4 MB ends it. Errors: io, exhausted.
Result<void> serve_stdio(const std::string& name, const std::string& version,
                         const std::vector<ServedTool>& tools, int input, int output,
                         const std::function<bool()>& stop);

}  // namespace anabranch::mcp
