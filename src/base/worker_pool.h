// A few threads for work that would block the I/O thread: parsing, templates, tokenising. Clients share them
// fairly, by the cost of their jobs.
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
  const char* name = "worker";  // of its threads (thread_name.h)
  int threads = 1;              // maximum; each is started when a job first needs it
  bool background = false;      // the threads have a lower priority than the others of the process
  int per_client = INT_MAX;     // maximum threads for the jobs of one client at a time
  // Jobs of at least this size leave one thread to other jobs, if there are two.
  size_t large_bytes = SIZE_MAX;
};

// The job's owner and size.
struct JobOwner {
  std::string client;  // a key's name or a network address; all jobs without one count as one client's
  size_t bytes = 0;    // size of the request, from which its time is estimated
};

class WorkerPool {
 public:
  explicit WorkerPool(PoolLimits limits) : limits_(limits) {}
  ~WorkerPool() { close(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Finishes running jobs, and drops jobs that wait or are submitted later.
  void close();

  // A thread takes the client whose jobs have cost least so far, among those with a waiting job that may run.
  // Of this client's jobs it takes the one with the earliest due time: the time of arrival plus a second for
  // each MiB. So a small job waits for few large ones, and no job waits for ever. Jobs must not throw.
  void submit(JobOwner owner, std::function<void()> job);
  // For jobs without a client, which start in the order of submission.
  void submit(std::function<void()> job) { submit({}, std::move(job)); }

 private:
  struct Job {
    JobOwner owner;
    double due = 0;
    std::function<void()> run;
  };
  struct Client {
    // Cost of the client's jobs started so far. Raised to cost_ when it submits a job and has none waiting.
    double cost = 0;
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
  double cost_ = 0;  // cost of the client served last, before that job
  int large_ = 0;    // number of large jobs that run
  size_t idle_ = 0;  // number of threads that wait for a job
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace anabranch
