#include "server/http/output_queue.h"

namespace anabranch::server {

asio::awaitable<bool> OutputQueue::flush() {
  writing_.swap(queued_);
  queued_.clear();
  written_ = 0;
  bool open = !socket_.abandoned();
  while (open && written_ < writing_.size()) {
    const auto [error, bytes] = co_await socket_.write(std::string_view(writing_).substr(written_));
    written_ += bytes;
    written_total_ += bytes;
    open = !error && !socket_.abandoned();
  }
  writing_.clear();
  written_ = 0;
  co_return open;
}

bool OutputQueue::stalled(double now) {
  const size_t in_system = socket_.unacknowledged();
  const uint64_t taken = written_total_ > in_system ? written_total_ - in_system : 0;
  return stall_.stalled(now, unsent() + in_system, unsent() > 0, taken);
}

}  // namespace anabranch::server
