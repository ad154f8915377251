// What a client asks of one connected server, in MCP's terms.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mcp/connection.h"

namespace anabranch::mcp {

// A function that a server offers. Texts are free of control characters, and bounded (Limits).
struct Tool {
  std::string server, name, title, description;
  Json input_schema, annotations;  // objects
  std::string origin;              // what the server is (origin_of()), whatever it is called
  bool operator==(const Tool&) const = default;
};

// Something to read.
struct Resource {
  std::string uri, name, title, description, mime_type;
};

// A text with gaps, for the user to choose.
struct PromptArgument {
  std::string name, description;
  bool required = false;
};
struct PromptInfo {
  std::string name, title, description;
  std::vector<PromptArgument> arguments;
};

// Text that a server answers with: of images, sounds and other bytes a short description.
struct Output {
  std::string text;
  bool is_error = false;   // the tool itself reports a failure
  bool truncated = false;  // it was longer than Limits::output_bytes
};

// A list, and what was left out of it, a sentence each.
template <class T>
struct Listed {
  std::vector<T> items;
  std::vector<std::string> notes;
};

// Thread-safe. Errors of all calls: as of Connection::request, and invalid (an answer of another form).
// patience: for all requests that a call makes.
class Session {
 public:
  // Agrees on the protocol's version with `initialize`. Errors: also unsupported (no version in common).
  static Result<std::unique_ptr<Session>> open(const ServerConfig& config, const Limits& limits,
                                               const Patience& patience);

  Result<Listed<Tool>> tools(const Patience& patience);
  Result<Listed<Resource>> resources(const Patience& patience);
  Result<Listed<PromptInfo>> prompts(const Patience& patience);
  Result<Output> call(const std::string& tool, const Json& arguments, const Patience& patience);
  Result<Output> read_resource(const std::string& uri, const Patience& patience);
  // Messages of the chat API: [{"role","content"}].
  Result<Json> get_prompt(const std::string& name, const std::map<std::string, std::string>& arguments,
                          const Patience& patience);

  bool alive() const { return connection_->alive(); }
  bool hears_changes() const { return connection_->hears_changes(); }
  const Changes& changes() const { return connection_->changes(); }
  // What the server calls itself, and its advice for models; bounded, perhaps empty.
  const std::string& title() const { return title_; }
  const std::string& instructions() const { return instructions_; }
  const std::string& protocol_version() const { return version_; }

 private:
  Session(ServerConfig config, const Limits& limits) : config_(std::move(config)), limits_(limits) {}
  Result<void> initialize(const Patience& patience);
  bool offers(const char* what) const { return capabilities_.contains(what); }
  // All pages of a list. key: of the array in each page. Elements that are no objects are left out.
  Result<Listed<Json>> list(const std::string& method, const char* key, const Patience& patience);
  Error wrong(const std::string& method, const std::string& what) const;

  const ServerConfig config_;
  const Limits limits_;
  std::unique_ptr<Connection> connection_;
  Json capabilities_ = Json::object();
  std::string title_, instructions_, version_;
};

}  // namespace anabranch::mcp
