// A few threads for work that would block the I/O thread: parsing, templates, tokenising. Clients share them
// fairly, by what their jobs cost.
#pragma once

#include <climits>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace anabranch {

struct PoolLimits {
  const char* name = "worker";    // of its threads (thread_name.h)
  int threads = 1;                // at most; each is started when a job first needs it
  bool background = false;        // the threads have a lower priority than the others of the process
  int per_client = INT_MAX;       // threads that the jobs of one client may take at once
  size_t large_bytes = SIZE_MAX;  // jobs of so many bytes leave one thread to the others, if there are two
};

// Whose job it is, and what it takes.
struct JobOwner {
  std::string client;  // a key's name or a network address; all jobs without one count as one client's
  size_t bytes = 0;    // of the request; its time is taken to grow with them
};

class WorkerPool {
 public:
  explicit WorkerPool(PoolLimits limits) : limits_(limits) {}
  ~WorkerPool() { close(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Finishes running jobs, and drops those that wait or are still submitted.
  void close();

  // A thread takes the client whose jobs have cost least so far, among those that wait and may run, and of
  // its jobs the one that is due first: when it came, and a second later for each MiB. So a small job waits
  // for few large ones, and no job waits for ever. Jobs must not throw.
  void submit(JobOwner owner, std::function<void()> job);
  // For jobs of nobody in particular, which start in the order submitted.
  void submit(std::function<void()> job) { submit({}, std::move(job)); }

 private:
  struct Job {
    JobOwner owner;
    double due = 0;
    std::function<void()> run;
  };
  struct Client {
    double cost = 0;  // of the jobs that have begun, or what others had when it came back
    size_t waiting = 0;
    int running = 0;
  };

  void work();
  bool may_run(const JobOwner& owner) const;
  std::deque<Job>::iterator next();
  void begin(const JobOwner& owner);
  void end(const JobOwner& owner);

  const PoolLimits limits_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::map<std::string, Client> clients_;
  double cost_ = 0;  // of the client that was served last
  int large_ = 0;    // large jobs that run
  size_t idle_ = 0;  // threads that wait for a job
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace anabranch
