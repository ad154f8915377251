#include "server/api/wait_pool.h"

#include "base/thread_name.h"

#include <algorithm>

namespace anabranch::server {
namespace {

template <class Key>
int count_of(const std::map<Key, int>& counts, const Key& key) {
  const auto at = counts.find(key);
  return at == counts.end() ? 0 : at->second;
}

template <class Key>
void add(std::map<Key, int>& counts, const Key& key, int by) {
  const auto at = counts.try_emplace(key).first;
  at->second += by;
  if (at->second == 0) counts.erase(at);
}

}  // namespace

void WaitPool::close() {
  std::vector<std::thread> threads;
  std::deque<Job> dropped, unready;  // freed outside the lock
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(jobs_);
    unready.swap(ready_);
    threads.swap(threads_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void WaitPool::submit(std::string owner, std::vector<std::string> places, std::function<void()> job) {
  std::ranges::sort(places);
  places.erase(std::unique(places.begin(), places.end()), places.end());
  if (places.empty()) places.emplace_back();
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  jobs_.push_back({std::move(owner), std::move(places), std::move(job)});
  start_waiting();
}

// Hands jobs that may start to threads, with the mutex held.
void WaitPool::start_waiting() {
  for (auto at = next(); at != jobs_.end(); at = next()) {
    count(*at, 1);
    ready_.push_back(std::move(*at));
    jobs_.erase(at);
    if (running_ > static_cast<int>(threads_.size())) threads_.emplace_back([this] { work(); });
    wake_.notify_one();
  }
}

bool WaitPool::may_start(const Job& job) const {
  const int own = count_of(by_owner_, job.owner);
  if (running_ >= limits_.threads || own >= limits_.per_owner) return false;
  if (own > 0 && running_ >= limits_.threads - limits_.threads / 4) return false;
  return std::ranges::all_of(job.places, [&](const std::string& place) {
    return count_of(by_place_, {job.owner, place}) < limits_.per_place;
  });
}

std::deque<WaitPool::Job>::iterator WaitPool::next() {
  auto best = jobs_.end();
  for (auto it = jobs_.begin(); it != jobs_.end(); ++it)
    if (may_start(*it) &&
        (best == jobs_.end() || count_of(by_owner_, it->owner) < count_of(by_owner_, best->owner)))
      best = it;
  return best;
}

void WaitPool::count(const Job& job, int by) {
  running_ += by;
  add(by_owner_, job.owner, by);
  for (const std::string& place : job.places) add(by_place_, {job.owner, place}, by);
}

void WaitPool::work() {
  name_thread(limits_.name);
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !ready_.empty(); });
    if (stopping_) return;
    Job job = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    job.run();
    job.run = nullptr;  // frees its captures outside the lock
    lock.lock();
    count(job, -1);
    start_waiting();
  }
}

}  // namespace anabranch::server
