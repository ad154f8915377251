// HTTP requests and answers as plain values, without library types.
//
// Ownership: a ResponseStream belongs jointly to its connection and to whoever answers. Every member of it is
// called on the I/O thread only; calls after the client has left do nothing.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/trace_parent.h"

namespace anabranch::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

// Identifies a request in logs and metrics. Fields that could not be read are empty.
struct RequestName {
  std::string method;
  std::string target;   // as sent, still percent-encoded
  std::string id;       // the value of x-request-id: the client's own or a new one
  std::string session;  // the value of x-session-id, by which routers choose a server; empty: none
};

struct HttpRequest {
  std::string method;
  std::string
      target;       // as sent: path and query, still percent-encoded; perhaps with scheme and host before it
  Headers headers;  // names in lower case
  std::string body;
  std::string address;         // of the client; empty if it has already gone
  std::shared_ptr<void> held;  // the body counts against the memory limit until this is released

  // The first header of this (lower-case) name, or nullptr.
  const std::string* header(std::string_view name) const {
    for (const auto& [key, value] : headers)
      if (key == name) return &value;
    return nullptr;
  }
  size_t count(std::string_view name) const {
    return static_cast<size_t>(std::count_if(headers.begin(), headers.end(),
                                             [&](const auto& header) { return header.first == name; }));
  }
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  Headers headers;
  std::string body;
};

// Data about an answer for logs and traces; while the answer is generated, the values so far. It has no text
// of prompts or answers.
struct AnswerNote {
  std::string id, model;    // model: empty until the request is given to one
  std::string asked_model;  // the beginning of the request's "model"
  int prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  int max_tokens = -1;  // as the next two, of the request with its defaults; -1: no limit
  std::optional<float> temperature, top_p;
  double submitted = 0, started = 0, first_tokens = 0;  // times in monotonic seconds; 0: not yet
  std::vector<std::string> finish;                      // the finish_reason of each choice, at the end
  std::string error;                                    // what ended it early; empty: nothing did

  bool given() const { return !model.empty(); }
};

// A request after its answer, for the access log and traces.
struct EndedRequest {
  const RequestName& name;
  std::string path;                  // of the target, at most 200 bytes
  std::string address;               // of the client
  std::string key;                   // its name; empty: it showed none
  int status = 0;                    // 0: no answer began
  double seconds = 0;                // since its first byte
  bool cut_off = false;              // the client did not get the whole answer
  const AnswerNote* note = nullptr;  // null: it is not a request for an answer, or was refused
  std::optional<TraceParent> parent = std::nullopt;
};

// One answer: either respond(), or start(), write()s and finish().
class ResponseStream {
 public:
  virtual ~ResponseStream() = default;
  // Adds a header to the answer before it begins. The value is one line of ASCII.
  virtual void add_header(std::string name, std::string value) = 0;
  virtual void respond(HttpResponse response) = 0;
  // Begins a 200 answer of unknown length. `heartbeat` is written whenever the stream has been silent for
  // HttpLimits::heartbeat_s.
  virtual void start(std::string content_type, std::string heartbeat) = 0;
  virtual void write(std::string_view data) = 0;
  // Ends the answer; with close_connection the connection is not used again.
  virtual void finish(bool close_connection) = 0;
  // Sets the data for the logs. The caller may change it until the answer ends.
  virtual void note(std::shared_ptr<const AnswerNote> note) = 0;
  // `left` runs once, later, if the client goes away, stalls or overflows its output queue before the answer
  // is finished.
  virtual void on_client_left(std::function<void()> left) = 0;
};

using Handler = std::function<void(HttpRequest, std::shared_ptr<ResponseStream>)>;

// Runs a function on the I/O thread, soon. Callable from any thread at any time; once the I/O thread has
// ended, functions are dropped without running.
using Post = std::function<void(std::function<void()>)>;
// Runs a function on the I/O thread after a number of seconds. I/O thread only.
using After = std::function<void(double seconds, std::function<void()>)>;

}  // namespace anabranch::server
