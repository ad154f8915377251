#include "server/http/request_reader.h"

#include "base/clock.h"

namespace anabranch::server {
namespace {

constexpr size_t kSlowBodyBytes = 4096;  // a body that brings this much within give_way_s is not slow
constexpr size_t kLargePart = 64;  // bodies above 1/64 of the limit for all (4 MiB by default) are large

}  // namespace

bool BodyTotals::add(const std::string& client, size_t more, size_t bytes, size_t limit) {
  std::lock_guard lock(mutex_);
  total_ += more;
  const size_t own = by_client_[client] += more;
  const bool large = bytes > limit / kLargePart;
  return own <= limit / 2 && total_ <= (large ? limit / 4 * 3 : limit);
}

void BodyTotals::remove(const std::string& client, size_t bytes) {
  std::lock_guard lock(mutex_);
  total_ -= bytes;
  const auto it = by_client_.find(client);
  if (it != by_client_.end() && (it->second -= bytes) == 0) by_client_.erase(it);
}

RequestReader::RequestReader(ClientSocket& socket, const HttpLimits& limits,
                             std::shared_ptr<BodyTotals> totals)
    : socket_(socket), limits_(limits), totals_(std::move(totals)), slow_since_(now_seconds()) {}

asio::awaitable<bool> RequestReader::wait() {
  share_.reset();
  fault_.reset();
  parser_.emplace(limits_.header_bytes, limits_.body_bytes);
  arrived_ = 0;
  slow_since_ = now_seconds();
  waiting_ = true;
  socket_.arm(limits_.idle_s);
  error_code error;
  while (true) {
    // An empty line before a request does not begin it: some clients send one after a body.
    input_.erase(0, parser_->skip_empty_line(input_));
    if (!input_.empty() || error) break;
    error = co_await socket_.read(input_);
  }
  waiting_ = false;
  slow_since_ = now_seconds();
  co_return !error;
}

asio::awaitable<bool> RequestReader::read_head() {
  socket_.arm(limits_.header_s);
  const bool read = co_await read_past(RequestParser::State::head);
  socket_.disarm();
  co_return read;
}

asio::awaitable<bool> RequestReader::read_body(std::string client) {
  share_ = std::make_shared<BodyShare>(totals_, std::move(client));
  socket_.arm(limits_.body_s);
  const bool read = co_await read_past(RequestParser::State::body);
  socket_.disarm();
  co_return read&& account_for_body();
}

// Reads until the parser has left this state.
asio::awaitable<bool> RequestReader::read_past(RequestParser::State state) {
  while (true) {
    input_.erase(0, parser_->take(input_));
    if (parser_->state() == RequestParser::State::failed) {
      fault_ = parser_->fault();
      co_return false;
    }
    if (parser_->state() != state) co_return true;
    if (!account_for_body()) co_return false;
    const error_code error = co_await socket_.read(input_);
    // Only a timeout gets an error: a client that has left reads no answer.
    if (error == asio::error::timed_out)
      fault_ = {408, "The request did not arrive in time", "", "request_timeout"};
    if (error) co_return false;
  }
}

// Counts the body's bytes. False: the bodies of all requests take too much memory.
bool RequestReader::account_for_body() {
  if (!share_) return true;
  const size_t bytes = parser_->body_size();
  if (bytes >= arrived_ + kSlowBodyBytes) {
    arrived_ = bytes;
    slow_since_ = now_seconds();
  }
  // Small bodies are not counted, so that large ones cannot keep them out; the number of connections bounds
  // the small ones.
  const size_t small = limits_.all_body_bytes / 1024;  // 256 KiB by default
  if (bytes <= small || share_->grow_to(bytes, limits_.all_body_bytes)) return true;
  fault_ = {503, "The bodies of other requests take all the room there is; try again later", "",
            "overloaded"};
  return false;
}

HttpRequest RequestReader::take_request() {
  HttpRequest request = parser_->take_request();
  request.held = std::move(share_);
  return request;
}

void RequestReader::drop_request() {
  parser_.reset();
  share_.reset();
}

}  // namespace anabranch::server
