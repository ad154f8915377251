#include "server/otlp/span_exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <limits>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "net/http_client.h"
#include "net/http_text.h"

namespace anabranch::server {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

class SpanExporter::Impl {
 public:
  Impl(OtlpEndpoint endpoint, std::string version, const Limits& limits)
      : endpoint_(std::move(endpoint)), version_(std::move(version)), limits_(limits), thread_([this] {
          name_thread("traces");
          run();
        }) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      ends_at_ = now_seconds() + limits_.last_words_s;
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void add(Span span) {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= limits_.waiting) {
      ++counts_.dropped;
      return;
    }
    if (span.trace_id.empty()) span.trace_id = new_id() + new_id();
    span.id = new_id();
    waiting_.push_back(span_json(span));
    wake_.notify_one();
  }

  Counts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  // 16 hexadecimal digits that are not all 0.
  std::string new_id() { return fmt::format("{:016x}", std::max<uint64_t>(random_(), 1)); }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      wake_.wait_for(lock, std::chrono::duration<double>(limits_.delay_s),
                     [&] { return stopping_ || waiting_.size() >= limits_.batch; });
      if (waiting_.empty()) return;  // because it stops
      const auto end = waiting_.begin() + static_cast<long>(std::min(waiting_.size(), limits_.batch));
      const std::vector<std::string> batch(std::make_move_iterator(waiting_.begin()),
                                           std::make_move_iterator(end));
      waiting_.erase(waiting_.begin(), end);
      lock.unlock();
      const bool sent = send(batch);
      lock.lock();
      (sent ? counts_.sent : counts_.dropped) += batch.size();
    }
  }

  // Whether the collector took them.
  bool send(const std::vector<std::string>& batch) {
    const double left = ends_at_ - now_seconds();
    if (left <= 0) return false;
    net::Transfer transfer;
    transfer.url = endpoint_.url;
    transfer.method = "POST";
    transfer.headers = endpoint_.headers;
    transfer.headers["Content-Type"] = "application/json";
    transfer.body = spans_body(version_, batch);
    transfer.seconds = std::min(limits_.request_s, left);
    transfer.stop = [this] { return now_seconds() >= ends_at_; };
    const net::Response response = client_.run(std::move(transfer));
    const bool good = response.good();
    if (good != works_) report(response);
    return works_ = good;
  }

  // Messages name the collector by its origin, because the rest of its address may hold a secret.
  void report(const net::Response& response) {
    const std::string collector = net::origin_of(endpoint_.url);
    if (response.good()) return log_info("traces are sent to {} again", collector);
    log_warning("traces cannot be sent to {}, and are dropped: {}", collector,
                response.problem.empty() ? fmt::format("it answers with status {}", response.status)
                                         : response.problem);
  }

  const OtlpEndpoint endpoint_;
  const std::string version_;
  const Limits limits_;
  net::HttpClient client_;
  bool works_ = true;  // the collector took the last batch; of the thread
  std::atomic<double> ends_at_{kNever};
  mutable std::mutex mutex_;  // for what follows
  std::condition_variable wake_;
  std::vector<std::string> waiting_;
  Counts counts_;
  std::mt19937_64 random_{std::random_device{}()};
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

SpanExporter::SpanExporter(OtlpEndpoint endpoint, std::string version, const Limits& limits)
    : impl_(std::make_unique<Impl>(std::move(endpoint), std::move(version), limits)) {}
SpanExporter::~SpanExporter() = default;

void SpanExporter::add(Span span) {
  impl_->add(std::move(span));
}

SpanExporter::Counts SpanExporter::counts() const {
  return impl_->counts();
}

}  // namespace anabranch::server
