// Requests of a client to one connected server, in MCP's terms.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mcp/connection.h"

namespace anabranch::mcp {

// A function that a server offers. Its texts have no control characters and limited lengths (Limits).
struct Tool {
  std::string server, name, title, description;
  Json input_schema, annotations;  // objects
  std::string origin;              // identifies the server (origin_of()), whatever its name
  bool operator==(const Tool&) const = default;
};

// A document or other data that a server offers for reading.
struct Resource {
  std::string uri, name, title, description, mime_type;
};

// Prompts of servers are texts with placeholders. Users choose them, not the model.
struct PromptArgument {
  std::string name, description;
  bool required = false;
};
struct PromptInfo {
  std::string name, title, description;
  std::vector<PromptArgument> arguments;
};

// Text of a server's answer. Images, sounds and other bytes become a short description.
struct Output {
  std::string text;
  bool is_error = false;   // the tool itself reports an error
  bool truncated = false;  // the text was longer than Limits::output_bytes
};

// A list, and a sentence for each thing that was left out of it.
template <class T>
struct Listed {
  std::vector<T> items;
  std::vector<std::string> notes;
};

// Thread-safe. Errors of all calls: see Connection::request; also invalid (an answer with another structure).
// patience: how long all requests of one call may take together.
class Client {
 public:
  // Negotiates the protocol version with `initialize`. Errors: also unsupported (no version in common).
  static Result<std::unique_ptr<Client>> open(const ServerConfig& config, const Limits& limits,
                                              const Patience& patience);

  Result<Listed<Tool>> tools(const Patience& patience);
  Result<Listed<Resource>> resources(const Patience& patience);
  Result<Listed<PromptInfo>> prompts(const Patience& patience);
  Result<Output> call(const std::string& tool, const Json& arguments, const Patience& patience);
  Result<Output> read_resource(const std::string& uri, const Patience& patience);
  // A prompt's text as messages of the chat API: [{"role","content"}].
  Result<Json> get_prompt(const std::string& name, const std::map<std::string, std::string>& arguments,
                          const Patience& patience);

  bool alive() const { return connection_->alive(); }
  bool hears_changes() const { return connection_->hears_changes(); }
  const Changes& changes() const { return connection_->changes(); }
  // The server's own title, and its advice for models; bounded, possibly empty.
  const std::string& title() const { return title_; }
  const std::string& instructions() const { return instructions_; }
  const std::string& protocol_version() const { return version_; }

 private:
  Client(ServerConfig config, const Limits& limits) : config_(std::move(config)), limits_(limits) {}
  Result<void> initialize(const Patience& patience);
  bool offers(const char* what) const { return capabilities_.contains(what); }
  // The objects in all pages of a list, up to the limits (then with a note). key: the name of the array in
  // each page.
  Result<Listed<Json>> list(const std::string& method, const char* key, const Patience& patience);
  Error wrong(const std::string& method, const std::string& what) const;

  const ServerConfig config_;
  const Limits limits_;
  std::unique_ptr<Connection> connection_;
  Json capabilities_ = Json::object();
  std::string title_, instructions_, version_;
};

}  // namespace anabranch::mcp
