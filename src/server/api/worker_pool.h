// A few threads for work that would block the I/O thread: parsing, templates, tokenising.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace anabranch::server {

class WorkerPool {
 public:
  // background: its threads have a lower priority than the others of the process.
  explicit WorkerPool(int threads, bool background = false);
  // Finishes running jobs and drops waiting ones.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Jobs start in the order submitted. They must not throw.
  void submit(std::function<void()> job);

 private:
  void work(bool background);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace anabranch::server
