#include "engine/state_fetcher.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread_name.h"

namespace anabranch {
namespace {

constexpr int kThreads = 4;

}  // namespace

StateFetcher::StateFetcher(PeerOptions options, StateCache& cache, HandOver hand_over)
    : timeout_s_(options.timeout_s),
      cache_(cache),
      hand_over_(std::move(hand_over)),
      peers_(std::move(options), cache.fingerprint(), cache.most_record_bytes()) {
  for (int i = 0; i < kThreads; i++) threads_.emplace_back([this] { work(); });
}

StateFetcher::~StateFetcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool StateFetcher::wants(const Request& request) const {
  return request.cache && static_cast<int>(request.prompt.size()) > PeerStates::kLeastGain;
}

void StateFetcher::add(std::unique_ptr<Sequence> sequence) {
  const std::lock_guard lock(mutex_);
  here_.insert(sequence->id);
  waiting_.push_back(std::move(sequence));
  wake_.notify_one();
}

bool StateFetcher::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (!here_.contains(id)) return false;
  cancelled_.insert(id);
  return true;
}

bool StateFetcher::given_up(RequestId id) {
  const std::lock_guard lock(mutex_);
  return stopping_ || cancelled_.contains(id);
}

// Takes the first waiting sequence for whose prompt no states are being fetched. (The others wait, because
// they will find the fetched states in the cache.) Null: there is none.
std::unique_ptr<Sequence> StateFetcher::take_next() {
  const auto next = std::ranges::find_if(waiting_, [&](const auto& sequence) {
    return std::ranges::none_of(fetching_, [&](const Sequence* other) {
      return other->tokens == sequence->tokens && other->request.cache_salt == sequence->request.cache_salt;
    });
  });
  if (next == waiting_.end()) return nullptr;
  auto sequence = std::move(*next);
  waiting_.erase(next);
  return sequence;
}

void StateFetcher::work() {
  name_thread("state fetcher");
  std::unique_lock lock(mutex_);
  while (true) {
    std::unique_ptr<Sequence> sequence;
    wake_.wait(lock, [&] { return (sequence = take_next()) || (stopping_ && waiting_.empty()); });
    if (!sequence) return;
    fetching_.push_back(sequence.get());
    lock.unlock();
    try {
      fetch(*sequence);
    } catch (const std::exception& e) {
      log_warning("request {}: nothing is fetched from other workers: {}", sequence->id, e.what());
    }
    lock.lock();
    // In the same critical section as the hand-over, so that no cancellation gets lost in between.
    std::erase(fetching_, sequence.get());
    wake_.notify_all();
    here_.erase(sequence->id);
    const bool cancelled = cancelled_.erase(sequence->id) > 0;
    hand_over_(std::move(sequence), cancelled);
  }
}

void StateFetcher::fetch(const Sequence& sequence) {
  const double until = sequence.submitted + timeout_s_;
  if (given_up(sequence.id) || now_seconds() >= until) return;
  const Request& request = sequence.request;
  const auto here = cache_.kept_here(sequence.tokens, request.cache_salt);
  const auto most = static_cast<int>(sequence.tokens.size()) - 1;
  if (most - here.length < PeerStates::kLeastGain) return;
  const auto keys = prefix_keys(cache_.fingerprint(), request.cache_salt, sequence.tokens);
  WantedStates wanted{.tokens = sequence.tokens,
                      .keys = keys,
                      .length_here = here.length,
                      .blocks_here = here.blocks,
                      .any_token = cache_.any_token(),
                      .host = {},
                      .until = until,
                      .stop = [&] { return given_up(sequence.id); }};
  const StateOrigin& from = request.state_from;
  if (peers_.knows(from.host))
    wanted.host = from.host;
  else if (!from.host.empty())
    log_warning("request {} names the worker {}, which is no --state-peer: nothing is fetched from there",
                sequence.id, from.host);
  if (!from.keys.empty() && std::ranges::count(from.keys, to_hex(prompt_key(keys, sequence.tokens))) == 0)
    log_warning("request {} is another prompt than the one that {} has read", sequence.id, from.host);
  const double begun = now_seconds();
  auto fetched = peers_.fetch(wanted);
  if (!fetched || given_up(sequence.id)) return;
  if (const auto added = cache_.add(fetched->records); !added)
    return log_warning("cache entries of {} are not used: {}", fetched->peer, added.error().message);
  log_info("request {}: {} of {} tokens come from {} ({:.1f} MB in {:.0f} ms)", sequence.id,
           fetched->length - here.length, sequence.tokens.size(), fetched->peer,
           static_cast<double>(fetched->bytes) / 1e6, 1e3 * (now_seconds() - begun));
}

}  // namespace anabranch
