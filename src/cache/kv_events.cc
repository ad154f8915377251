#include "cache/kv_events.h"

#include <zmq.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <span>
#include <thread>
#include <unordered_map>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread_name.h"

namespace anabranch {
namespace {

constexpr int kQueuedMessages = 1000;            // for each subscriber, which misses further ones
constexpr size_t kBlocksInMessage = 64;          // about 80 kB
constexpr int kLingerMilliseconds = 500;         // how long the destructor sends queued messages
constexpr std::chrono::milliseconds kTick{100};  // between checks for new subscribers

// The hash that identifies a block to others. It also covers all tokens before the block.
uint64_t hash_of(const PrefixKey& key) {
  return key.low;
}

// Arrays whose first element is the event's name. Consecutive blocks of one prefix share an event.
Json stored_json(std::span<const BlockChange> chain) {
  Json hashes = Json::array(), tokens = Json::array();
  for (const BlockChange& block : chain) {
    hashes.push_back(hash_of(block.key));
    for (const int token : block.tokens) tokens.push_back(token);
  }
  const BlockChange& first = chain.front();
  const bool begins = first.length == kBlockTokens;
  // At the end: lora_id and medium. Without a medium, the block is in the engine's own memory.
  return Json::array({"BlockStored", std::move(hashes), begins ? Json() : Json(hash_of(first.parent)),
                      std::move(tokens), kBlockTokens, nullptr, nullptr});
}

Json removed_json(std::span<const BlockChange> blocks) {
  Json hashes = Json::array();
  for (const BlockChange& block : blocks) hashes.push_back(hash_of(block.key));
  return Json::array({"BlockRemoved", std::move(hashes), nullptr});
}

bool belong_together(const BlockChange& before, const BlockChange& after) {
  return before.stored == after.stored && (!after.stored || after.parent == before.key);
}

Json events_json(std::span<const BlockChange> changes) {
  Json events = Json::array();
  while (!changes.empty()) {
    size_t size = 1;
    while (size < changes.size() && belong_together(changes[size - 1], changes[size])) size++;
    const auto same = changes.first(size);
    events.push_back(same.front().stored ? stored_json(same) : removed_json(same));
    changes = changes.subspan(size);
  }
  return events;
}

}  // namespace

class KvEvents::Impl {
 public:
  explicit Impl(const std::string& endpoint) : socket_(context_, zmq::socket_type::xpub) {
    socket_.set(zmq::sockopt::sndhwm, kQueuedMessages);
    socket_.set(zmq::sockopt::linger, kLingerMilliseconds);
    socket_.set(zmq::sockopt::ipv6, true);
    socket_.set(zmq::sockopt::xpub_verbose, true);  // reports every new subscriber
    socket_.bind(endpoint);
    thread_ = std::thread([this] { run(); });
  }
  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

  void publish(std::vector<BlockChange> changes) {
    {
      const std::lock_guard lock(mutex_);
      std::move(changes.begin(), changes.end(), std::back_inserter(changes_));
    }
    wake_.notify_one();
  }

 private:
  void run() {
    name_thread("cache events");
    while (true) {
      std::vector<BlockChange> changes;
      {
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, kTick, [&] { return stopping_ || !changes_.empty(); });
        changes.swap(changes_);
        if (stopping_) break;
      }
      try {
        for (const BlockChange& change : changes) note(change);
        if (has_new_subscriber())
          send_all();
        else
          send(changes);
      } catch (const std::exception& e) {
        log_warning("--kv-events: {}", e.what());
      }
    }
    try {
      send(Json::array({Json::array({"AllBlocksCleared"})}));
    } catch (const std::exception& e) {
      log_warning("--kv-events: {}", e.what());
    }
  }

  // Updates the list of all blocks, parents before children, which is sent to new subscribers.
  void note(const BlockChange& change) {
    const auto known = places_.find(change.key);
    if (known != places_.end()) {
      blocks_.erase(known->second);
      places_.erase(known);
    }
    if (change.stored) places_[change.key] = blocks_.insert(blocks_.end(), change);
  }

  bool has_new_subscriber() {
    bool any = false;
    zmq::message_t message;
    while (socket_.recv(message, zmq::recv_flags::dontwait))
      any = any || (message.size() > 0 && *message.data<char>() == 1);
    return any;
  }

  void send_all() {
    send(Json::array({Json::array({"AllBlocksCleared"})}));
    send({blocks_.begin(), blocks_.end()});
  }

  void send(const std::vector<BlockChange>& changes) {
    for (std::span<const BlockChange> rest = changes; !rest.empty();) {
      const auto some = rest.first(std::min(rest.size(), kBlocksInMessage));
      send(events_json(some));
      rest = rest.subspan(some.size());
    }
  }

  // Sends a message of three parts: an empty topic, the message's number, and the batch.
  void send(Json events) {
    constexpr int kRank = 0;  // of data parallelism
    const double now = static_cast<double>(unix_nanoseconds()) / 1e9;
    const auto payload = Json::to_msgpack(Json::array({now, std::move(events), kRank}));
    std::array<uint8_t, 8> number;
    for (size_t i = 0; i < number.size(); i++)
      number[i] = static_cast<uint8_t>(sent_ >> (8 * (number.size() - 1 - i)));
    sent_++;
    const auto more = zmq::send_flags::sndmore | zmq::send_flags::dontwait;
    if (!socket_.send(zmq::message_t(), more) || !socket_.send(zmq::buffer(number), more) ||
        !socket_.send(zmq::buffer(payload), zmq::send_flags::dontwait))
      log_warning("--kv-events: message {} was not taken", sent_ - 1);
  }

  zmq::context_t context_;
  zmq::socket_t socket_;  // used by the thread only, once it runs
  uint64_t sent_ = 0;
  std::list<BlockChange> blocks_;
  std::unordered_map<PrefixKey, std::list<BlockChange>::iterator> places_;

  std::mutex mutex_;  // guards the next two
  std::vector<BlockChange> changes_;
  bool stopping_ = false;
  std::condition_variable wake_;
  std::thread thread_;
};

Result<std::unique_ptr<KvEvents>> KvEvents::open(const std::string& endpoint) {
  try {
    return std::unique_ptr<KvEvents>(new KvEvents(std::make_unique<Impl>(endpoint)));
  } catch (const zmq::error_t& e) {
    return make_error(ErrorKind::io, "--kv-events: cannot listen on '{}': {}; give an endpoint such as {}",
                      endpoint, e.what(), "tcp://127.0.0.1:5557");
  }
}

KvEvents::KvEvents(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
KvEvents::~KvEvents() = default;

void KvEvents::publish(std::vector<BlockChange> changes) {
  if (!changes.empty()) impl_->publish(std::move(changes));
}

}  // namespace anabranch
