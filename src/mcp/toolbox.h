// The tools of one conversation as functions for a model. Plain data: nothing here talks to a server.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mcp/client.h"

namespace anabranch::mcp {

class Toolbox {
 public:
  // Gives the tool a unique name: "server__tool", of [A-Za-z0-9_-], at most 64 characters. The name depends
  // on the tool alone unless two tools would share it. If the tool was added before, it is replaced.
  void add(const Tool& tool);
  bool empty() const { return tools_.empty(); }
  // The toolbox must not be empty.
  const Tool& first() const { return tools_.front().tool; }
  // OpenAI's array: [{"type":"function","function":{"name","description","parameters"}}].
  Json functions() const;
  // "server__one, server__two": the functions that the model may call, for messages. At most a hundred.
  std::string names() const;
  // Small models leave the server out: the tool's own name is accepted if no other tool has it. Null: no tool
  // has this name.
  const Tool* find(std::string_view function_name) const;
  std::vector<Tool> tools() const;
  // The function name of the tool; empty: it was not added.
  std::string name_of(const Tool& tool) const;

 private:
  struct Entry {
    std::string name;
    Tool tool;
  };
  std::vector<Entry> tools_;  // in the order of add()
};

// The text of a result for a model; errors are marked as such.
std::string text_for_model(bool is_error, const std::string& text);

}  // namespace anabranch::mcp
