#include "mcp/pending.h"

#include <chrono>

#include "base/clock.h"

namespace anabranch::mcp {
namespace {

constexpr std::chrono::milliseconds kPoll(20);  // how often `cancelled` is called

}  // namespace

Result<int64_t> PendingRequests::add(const std::string& method) {
  std::lock_guard lock(mutex_);
  if (failure_) return *failure_;
  waiting_[next_].method = method;
  return next_++;
}

std::optional<Result<Json>> PendingRequests::wait(int64_t id, double until, const Cancelled& cancelled) {
  std::unique_lock lock(mutex_);
  const auto at = waiting_.find(id);
  while (!at->second.answer) {
    answered_.wait_for(lock, kPoll);
    if (at->second.answer) break;
    lock.unlock();
    const bool over = now_seconds() >= until || (cancelled && cancelled());
    lock.lock();
    if (over) break;
  }
  auto answer = std::move(at->second.answer);
  waiting_.erase(at);
  return answer;
}

bool PendingRequests::take(const std::string& server, const Message& message) {
  std::lock_guard lock(mutex_);
  if (!message.id.is_number_integer()) return false;
  const auto at = waiting_.find(message.id.get<int64_t>());
  if (at == waiting_.end() || at->second.answer) return false;
  if (message.kind == Message::Kind::error)
    at->second.answer = server_error(server, at->second.method, message.code, message.text);
  else
    at->second.answer = message.body;
  answered_.notify_all();
  return true;
}

void PendingRequests::fail_all(const Error& error, bool for_good) {
  std::lock_guard lock(mutex_);
  if (for_good && !failure_) failure_ = error;
  for (auto& [id, request] : waiting_)
    if (!request.answer) request.answer = error;
  answered_.notify_all();
}

bool PendingRequests::failed() const {
  std::lock_guard lock(mutex_);
  return failure_.has_value();
}

}  // namespace anabranch::mcp
