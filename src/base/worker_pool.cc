#include "base/worker_pool.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/thread_name.h"

#if defined(__linux__)
#include <sys/resource.h>
#endif

namespace anabranch {
namespace {

constexpr double kBytesPerSecond = 1 << 20;  // processing speed of large jobs, roughly
constexpr double kLeastCost = 16 << 10;      // of a job, in bytes
constexpr size_t kMostClients = 1024;        // whose costs are remembered

}  // namespace

void WorkerPool::close() {
  std::deque<Job> dropped;  // freed outside the lock
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    dropped.swap(jobs_);
  }
  dropped.clear();
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerPool::submit(JobOwner owner, std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    Client& client = clients_[owner.client];
    // A client that had no job waiting starts level with the client served last.
    if (client.waiting++ == 0) client.cost = std::max(client.cost, cost_);
    const double due = now_seconds() + static_cast<double>(owner.bytes) / kBytesPerSecond;
    jobs_.push_back({std::move(owner), due, std::move(job)});
    if (jobs_.size() > idle_ && static_cast<int>(threads_.size()) < limits_.threads)
      threads_.emplace_back([this] { work(); });
  }
  wake_.notify_one();
}

bool WorkerPool::may_run(const JobOwner& owner) const {
  if (clients_.at(owner.client).running >= limits_.per_client) return false;
  return owner.bytes < limits_.large_bytes || limits_.threads == 1 || large_ < limits_.threads - 1;
}

std::deque<WorkerPool::Job>::iterator WorkerPool::next() {
  auto best = jobs_.end();
  for (auto job = jobs_.begin(); job != jobs_.end(); ++job) {
    if (!may_run(job->owner)) continue;
    const auto rank = [&](const Job& one) { return std::pair(clients_.at(one.owner.client).cost, one.due); };
    if (best == jobs_.end() || rank(*job) < rank(*best)) best = job;
  }
  return best;
}

void WorkerPool::begin(const JobOwner& owner) {
  Client& client = clients_.at(owner.client);
  cost_ = client.cost;
  client.cost += kLeastCost + static_cast<double>(owner.bytes);
  --client.waiting;
  ++client.running;
  large_ += owner.bytes >= limits_.large_bytes;
}

void WorkerPool::end(const JobOwner& owner) {
  --clients_.at(owner.client).running;
  // Forgets idle clients whose cost would be raised to cost_ anyway; all idle clients if no job waits or
  // there are more than kMostClients.
  const bool all = jobs_.empty() || clients_.size() > kMostClients;
  std::erase_if(clients_, [&](const auto& entry) {
    const Client& client = entry.second;
    return client.waiting == 0 && client.running == 0 && (all || client.cost <= cost_);
  });
  large_ -= owner.bytes >= limits_.large_bytes;
}

void WorkerPool::work() {
  name_thread(limits_.name);
#if defined(__linux__)
  if (limits_.background) setpriority(PRIO_PROCESS, 0, 10);  // of this thread only
#endif
  std::unique_lock lock(mutex_);
  while (true) {
    auto job = jobs_.end();
    ++idle_;
    wake_.wait(lock, [&] { return stopping_ || (job = next()) != jobs_.end(); });
    --idle_;
    if (stopping_) return;
    Job taken = std::move(*job);
    jobs_.erase(job);
    begin(taken.owner);
    lock.unlock();
    taken.run();
    taken.run = nullptr;  // frees its captures outside the lock
    lock.lock();
    end(taken.owner);
    wake_.notify_all();  // wakes threads for jobs that could not run beside this one
  }
}

}  // namespace anabranch
