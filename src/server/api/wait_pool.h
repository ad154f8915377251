// Threads for jobs that mostly wait for other servers, such as MCP servers. A slow server delays only the
// jobs that need it, and one key's jobs do not delay those of other keys.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace anabranch::server {

struct WaitLimits {
  const char* name = "waiter";  // name of its threads (base/thread_name.h)
  int threads = 128;            // started on demand; the last quarter is for owners without a running job
  int per_owner = 32;           // running jobs of one owner
  int per_place = 8;            // running jobs of one owner at one place
};

// Thread-safe.
class WaitPool {
 public:
  explicit WaitPool(const WaitLimits& limits = {}) : limits_(limits) {}
  ~WaitPool() { close(); }
  WaitPool(const WaitPool&) = delete;
  WaitPool& operator=(const WaitPool&) = delete;

  // Lets running jobs finish (they can check stopping()). Drops waiting jobs and those submitted later.
  void close();

  // owner: the name of the key that the job is for. places: the servers that it may wait for. Among the jobs
  // that may start, those of the owner with the fewest running jobs come first, then the oldest. Jobs must
  // not throw.
  void submit(std::string owner, std::vector<std::string> places, std::function<void()> job);
  bool stopping() const { return stopping_; }

 private:
  struct Job {
    std::string owner;
    std::vector<std::string> places;
    std::function<void()> run;
  };
  void work();
  void start_waiting();
  bool may_start(const Job& job) const;
  std::deque<Job>::iterator next();
  void count(const Job& job, int by);

  const WaitLimits limits_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_, ready_;  // waiting jobs; jobs that a thread will run next
  std::map<std::string, int> by_owner_;
  std::map<std::pair<std::string, std::string>, int> by_place_;  // owner and place
  int running_ = 0;                                              // including the ready ones
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace anabranch::server
