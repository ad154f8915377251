// One request's answer on its way to a connection: status line, headers, chunks.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/types.h"

namespace anabranch::server {

// The connection that an exchange writes to.
class Outlet {
 public:
  virtual ~Outlet() = default;
  // Queues bytes to send. With `limited`, drops the client when too many bytes are queued.
  virtual void send(std::string_view data, bool limited) = 0;
  virtual void wake() = 0;
  // True if the server is stopping, so that no further request will be read.
  virtual bool stopping() const = 0;
  virtual void responded(int status) = 0;
  virtual void note(std::shared_ptr<const AnswerNote> note) = 0;
};

// May outlive its connection; then it ignores everything that is written to it.
class Exchange final : public ResponseStream {
 public:
  // headers: added to those of the response.
  Exchange(Outlet* outlet, bool http10, bool head, bool keep_alive, Headers headers)
      : outlet_(outlet),
        http10_(http10),
        head_(head),
        headers_(std::move(headers)),
        keep_alive_(keep_alive) {}

  void add_header(std::string name, std::string value) override {
    headers_.emplace_back(std::move(name), std::move(value));
  }
  void respond(HttpResponse response) override;
  void start(std::string content_type, std::string heartbeat) override;
  void write(std::string_view data) override;
  void finish(bool close_connection) override;
  void note(std::shared_ptr<const AnswerNote> note) override {
    if (outlet_) outlet_->note(std::move(note));
  }
  void on_client_left(std::function<void()> left) override { left_ = std::move(left); }

  bool done() const { return done_; }
  bool streaming() const { return started_ && !done_; }
  bool keep_alive() const { return keep_alive_; }
  const std::string& heartbeat() const { return heartbeat_; }
  // Disconnects the exchange from its connection and returns the callback of on_client_left().
  std::function<void()> detach() {
    outlet_ = nullptr;
    return std::exchange(left_, nullptr);
  }

 private:
  std::string head(const HttpResponse& response, bool chunked) const;

  Outlet* outlet_;
  const bool http10_, head_;
  Headers headers_;
  bool keep_alive_;
  bool started_ = false, done_ = false;
  std::string heartbeat_;
  std::function<void()> left_;
};

}  // namespace anabranch::server
