#include "server/api/worker_pool.h"

#if defined(__linux__)
#include <sys/resource.h>
#include <unistd.h>
#endif

namespace anabranch::server {

WorkerPool::WorkerPool(int threads, bool background) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this, background] { work(background); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::submit(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void WorkerPool::work(bool background) {
#if defined(__linux__)
  if (background) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 10);  // of this thread only
#else
  (void)background;
#endif
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // frees its captures outside the lock
    lock.lock();
  }
}

}  // namespace anabranch::server
