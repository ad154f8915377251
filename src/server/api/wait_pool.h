// Threads for jobs that mostly wait for servers of others, such as those of MCP. A place where everybody
// waits holds up only those who go there, and a key's jobs hold up no other key's.
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
  const char* name = "waiter";  // of its threads (base/thread_name.h)
  int threads = 128;   // started when they are needed; the last quarter is for owners without a running job
  int per_owner = 32;  // jobs of one owner at a time
  int per_place = 8;   // of these, jobs at one place
};

// Thread-safe.
class WaitPool {
 public:
  explicit WaitPool(const WaitLimits& limits = {}) : limits_(limits) {}
  ~WaitPool() { close(); }
  WaitPool(const WaitPool&) = delete;
  WaitPool& operator=(const WaitPool&) = delete;

  // Finishes running jobs, which see stopping(), and drops those that wait or are still submitted.
  void close();

  // owner: whose job it is, the name of a key. places: the servers that it may wait for. Of the jobs that may
  // start, one of the owner with the fewest running ones goes first, then the oldest. Jobs must not throw.
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
  std::deque<Job> jobs_, ready_;  // those that wait; those that a thread is to run next
  std::map<std::string, int> by_owner_;
  std::map<std::pair<std::string, std::string>, int> by_place_;  // owner and place
  int running_ = 0;                                              // ready ones included
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace anabranch::server
