#include "server/http/request_record.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"

namespace anabranch::server {
namespace {

constexpr size_t kLoggedTarget = 200;

}  // namespace

bool is_request_id(std::string_view id) {
  constexpr std::string_view kOthers = "-_.:+=@";
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != kOthers.npos;
  });
}

void RequestRecord::identify(const HttpRequest* request, std::mt19937_64& random) {
  if (name_.id.empty()) name_.id = fmt::format("req_{:016x}{:08x}", random(), random() >> 32);
  if (!request) return;
  const std::string* id = request->header("x-request-id");
  if (id && is_request_id(*id)) name_.id = *id;
  const std::string* session = request->header("x-session-id");
  if (session && is_request_id(*session)) name_.session = *session;
  if (request->count("traceparent") == 1) parent_ = parse_trace_parent(*request->header("traceparent"));
  name_.method = request->method;
  name_.target = request->target;
}

void RequestRecord::write(LogLevel level, std::string_view path, bool cut_off) const {
  const std::string_view method = name_.method.empty() ? "(unreadable)" : std::string_view(name_.method);
  const double seconds = now_seconds() - began_;
  const bool given = note_ && note_->given();
  if (log_format() == LogFormat::text) {
    const auto tokens =
        given ? fmt::format(", {} + {} tokens", note_->prompt_tokens, note_->completion_tokens) : "";
    return log_message(level, fmt::format("{}: {} {} {} after {:.3f} s{}{}", name_.id, method, path,
                                          status_ ? std::to_string(status_) : "no answer", seconds, tokens,
                                          cut_off ? ", cut off" : ""));
  }
  std::vector<LogField> fields = {{"request_id", name_.id}, {"method", method}, {"path", path}};
  if (status_) fields.emplace_back("status", status_);
  fields.emplace_back("seconds", std::round(seconds * 1e6) / 1e6);
  fields.emplace_back("cut_off", cut_off);
  if (given) {
    fields.emplace_back("answer_id", note_->id);
    fields.emplace_back("model", note_->model);
    fields.emplace_back("prompt_tokens", note_->prompt_tokens);
    fields.emplace_back("cached_tokens", note_->cached_tokens);
    fields.emplace_back("completion_tokens", note_->completion_tokens);
  }
  log_fields(level, "request", fields);
}

// Reads that succeed (health checks, metrics) are logged at the debug level only.
void RequestRecord::log(bool cut_off) const {
  if (status_ == 0) return;
  const bool read = name_.method == "GET" || name_.method == "HEAD";
  const auto level = read && status_ < 400 ? LogLevel::debug : LogLevel::info;
  if (log_enabled(level)) write(level, path(), cut_off);
}

EndedRequest RequestRecord::end(bool cut_off) {
  const int status = std::exchange(status_, 0);
  open_ = false;
  return {name_,   std::string(path()), address_, key_, status, now_seconds() - began_,
          cut_off, note_.get(),         parent_};
}

std::string_view RequestRecord::path() const {
  return std::string_view(name_.target).substr(0, name_.target.find('?')).substr(0, kLoggedTarget);
}

}  // namespace anabranch::server
