#include <xgrammar/xgrammar.h>
#include <xgrammar_stop.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <regex>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/clock.h"
#include "base/thread_name.h"
#include "base/worker_pool.h"
#include "grammar/compiled_grammar.h"
#include "grammar/grammar.h"

namespace anabranch {
namespace {

using Compiled = Result<std::shared_ptr<const CompiledGrammar>>;

// Only one text of this size is compiled at a time, because xgrammar stops slowly on it.
constexpr size_t kLargeText = 64u << 10;
// The size that the pool is given for a second attempt, whatever its text. It makes the job large and puts it
// behind jobs of other sizes, because it is more than any text has.
constexpr size_t kSecondAttempt = 2u << 20;

// The message without the time, source file and line with which the library's messages begin.
std::string message_of(const std::exception& e) {
  static const std::regex place(
      R"(^(\[[^\]]*\]\s*)?([^\s:]*\.(cc|h):\d+:?\s*)?(Check failed: [^\n]*\) is false: )?)");
  std::string text =
      std::regex_replace(std::string(e.what()), place, "", std::regex_constants::format_first_only);
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

Error busy() {
  return make_error(ErrorKind::busy, "other grammars are being compiled; try again later");
}

}  // namespace

// Two threads compile. They make the first attempts, taking turns between clients; at most one of them works
// on a grammar that takes longer. A third thread stops attempts that take too long or whose clients are gone.
class GrammarCompiler::Impl {
 public:
  Impl(GrammarVocab vocab, GrammarLimits limits);
  ~Impl();
  void compile(const std::string& text, const GrammarClient& client, GrammarDone done);
  GrammarStats stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  struct Waiter {
    GrammarClient client;
    GrammarDone done;
    double until = 0;  // the latest time at which its last attempt may begin
  };
  struct Job {
    std::string key;  // space, a NUL, and the text
    size_t text_at = 0;
    size_t text_bytes() const { return key.size() - text_at; }
    std::string text() const { return key.substr(text_at); }
    std::optional<Compiled> result;
    std::vector<Waiter> waiters;
    double started = 0;  // this attempt; 0 while it waits
    bool second = false;
    xgrammar_stop::Switch stop;
  };
  using JobPtr = std::shared_ptr<Job>;
  struct Entry {
    JobPtr job;
    size_t bytes = 0;
  };
  // Answers to deliver once the lock is released.
  using Answers = std::vector<std::pair<Waiter, Compiled>>;

  void attempt(const JobPtr& job);
  void conclude(const JobPtr& job, Compiled result, Answers& answers);
  void put_off(const JobPtr& job);
  void watch();
  void expire(Answers& answers);
  Compiled build(Job& job);
  const xgrammar::TokenizerInfo& tokens();
  bool is_full(const std::string& client) const;
  void submit(const JobPtr& job);
  void forget(const JobPtr& job);
  void make_room();
  double seconds_of(const Job& job) const {
    return job.second ? limits_.seconds : std::min(limits_.seconds, limits_.first_seconds);
  }
  void answer_all(Job& job, const Compiled& result, Answers& answers) {
    if (!result.ok()) stats_.refused += job.waiters.size();
    for (Waiter& waiter : job.waiters) answers.emplace_back(std::move(waiter), result);
    job.waiters.clear();
  }
  static void tell(Answers& answers) {
    for (auto& [waiter, result] : answers)
      if (!waiter.client.waits.expired()) waiter.done(std::move(result));
    answers.clear();
  }

  GrammarVocab vocab_;
  const GrammarLimits limits_;
  std::once_flag tokens_made_;
  std::optional<xgrammar::TokenizerInfo> tokens_;  // made for the first grammar

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable wake_watch_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  size_t bytes_ = 0;
  GrammarStats stats_;
  bool stopping_ = false;
  WorkerPool pool_{{.name = "grammar", .threads = 2, .large_bytes = kLargeText}};
  std::thread watch_;
};

GrammarCompiler::Impl::Impl(GrammarVocab vocab, GrammarLimits limits)
    : vocab_(std::move(vocab)), limits_(limits), watch_([this] { watch(); }) {}

GrammarCompiler::Impl::~Impl() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const Entry& entry : entries_) entry.job->stop.stop = true;
  }
  wake_watch_.notify_all();
  watch_.join();
  pool_.close();
}

const xgrammar::TokenizerInfo& GrammarCompiler::Impl::tokens() {
  std::call_once(tokens_made_, [&] {
    const std::vector<int32_t> ends(vocab_.ends.begin(), vocab_.ends.end());
    tokens_.emplace(vocab_.tokens, xgrammar::VocabType::RAW, static_cast<int>(vocab_.tokens.size()), ends);
    vocab_.tokens = {};
  });
  return *tokens_;
}

Compiled GrammarCompiler::Impl::build(Job& job) {
  const xgrammar_stop::Scope scope(&job.stop);
  try {
    xgrammar::GrammarCompiler compiler(tokens(), 2, false);
    const auto grammar = std::make_shared<const CompiledGrammar>(compiler.CompileGrammar(job.text()));
    GrammarMatcher start(grammar);
    const auto mask = start.mask();
    if (std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; }))
      return make_error(
          ErrorKind::invalid,
          "the grammar can produce nothing: no token of the model begins a text that follows it");
    return grammar;
  } catch (const xgrammar_stop::Stopped&) {
    if (xgrammar_stop::is_too_large(job.stop))
      return make_error(ErrorKind::exhausted,
                        "the grammar takes more than {} MiB to compile; make it simpler",
                        job.stop.most_words * 4 >> 20);
    return make_error(ErrorKind::busy, "stopped");
  } catch (const std::exception& e) {
    return make_error(ErrorKind::invalid, "the grammar is not valid: {}", message_of(e));
  }
}

// Removes the least recently used results until the cache is within its limits.
void GrammarCompiler::Impl::make_room() {
  size_t results = 0;
  for (const Entry& entry : entries_) results += entry.job->result.has_value();
  for (auto it = entries_.end(); it != entries_.begin() && results > 1;) {
    --it;
    if (bytes_ <= limits_.cache_bytes && results <= limits_.cache_entries) return;
    if (!it->job->result) continue;  // not yet compiled
    bytes_ -= it->bytes;
    --results;
    by_key_.erase(it->job->key);
    it = entries_.erase(it);
  }
}

void GrammarCompiler::Impl::forget(const JobPtr& job) {
  const auto it = by_key_.find(job->key);
  entries_.erase(it->second);
  by_key_.erase(it);
}

void GrammarCompiler::Impl::submit(const JobPtr& job) {
  const size_t bytes = job->second ? kSecondAttempt : job->text_bytes();
  pool_.submit({job->waiters.front().client.name, bytes}, [this, job] { attempt(job); });
}

void GrammarCompiler::Impl::attempt(const JobPtr& job) {
  Answers answers;
  {
    std::unique_lock lock(mutex_);
    std::erase_if(job->waiters, [](const Waiter& waiter) { return waiter.client.waits.expired(); });
    if (stopping_) return;
    if (job->waiters.empty()) return forget(job);
    job->stop.stop = false;
    job->stop.words = 0;
    const double start = job->started = now_seconds();
    wake_watch_.notify_one();
    lock.unlock();
    Compiled result = build(*job);
    lock.lock();
    job->started = 0;
    if (stopping_) return;
    stats_.compile_s += now_seconds() - start;
    const bool stopped = !result.ok() && result.error().kind == ErrorKind::busy;
    stopped ? put_off(job) : conclude(job, std::move(result), answers);
  }
  tell(answers);
}

void GrammarCompiler::Impl::conclude(const JobPtr& job, Compiled result, Answers& answers) {
  stats_.compiled++;
  answer_all(*job, result, answers);
  auto& entry = *by_key_.at(job->key);
  entry.bytes = job->text_bytes() + (result.ok() ? (*result)->grammar.MemorySizeBytes() : 0);
  bytes_ += entry.bytes;
  job->result.emplace(std::move(result));
  make_room();
}

// Called after an attempt was stopped: forgets the job if nobody waits any more, otherwise queues it behind
// the others.
void GrammarCompiler::Impl::put_off(const JobPtr& job) {
  if (job->waiters.empty()) return forget(job);
  job->second = true;
  for (Waiter& waiter : job->waiters) waiter.until = now_seconds() + limits_.seconds;
  submit(job);
}

// Stops attempts that take too long, and collects the answers for clients whose waiting time is over.
void GrammarCompiler::Impl::expire(Answers& answers) {
  const double now = now_seconds();
  for (const Entry& entry : entries_) {
    Job& job = *entry.job;
    if (job.result) continue;
    std::erase_if(job.waiters, [](const Waiter& waiter) { return waiter.client.waits.expired(); });
    if (job.started > 0) {
      const bool late = now >= job.started + seconds_of(job);
      if (late && (job.second || limits_.seconds <= limits_.first_seconds))
        answer_all(
            job,
            make_error(ErrorKind::exhausted, "the grammar takes longer than {} s to compile; make it simpler",
                       limits_.seconds),
            answers);
      if (late || job.waiters.empty()) job.stop.stop = true;
      continue;
    }
    std::erase_if(job.waiters, [&](Waiter& waiter) {
      if (now < waiter.until) return false;
      answers.emplace_back(std::move(waiter), busy());
      stats_.refused++;
      return true;
    });
  }
}

void GrammarCompiler::Impl::watch() {
  name_thread("grammar watch");
  constexpr std::chrono::milliseconds kOften(20);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool any =
        std::any_of(entries_.begin(), entries_.end(), [](const Entry& e) { return !e.job->result; });
    if (any)
      wake_watch_.wait_for(lock, kOften);
    else
      wake_watch_.wait(lock);
    if (stopping_) return;
    Answers answers;
    expire(answers);
    lock.unlock();
    tell(answers);
    lock.lock();
  }
}

// Whether too many grammars wait, in total or for this client.
bool GrammarCompiler::Impl::is_full(const std::string& client) const {
  size_t waiting = 0, own = 0;
  for (const Entry& entry : entries_) {
    const Job& job = *entry.job;
    if (job.result || job.waiters.empty()) continue;
    ++waiting;
    own += job.waiters.front().client.name == client;
  }
  return waiting >= limits_.waiting || own >= limits_.waiting_of_client;
}

void GrammarCompiler::Impl::compile(const std::string& text, const GrammarClient& client, GrammarDone done) {
  std::unique_lock lock(mutex_);
  const auto answer = [&](const Compiled& result) {
    if (!result.ok()) stats_.refused++;
    lock.unlock();
    done(result);
  };
  if (text.size() > limits_.text_bytes)
    return answer(make_error(ErrorKind::exhausted, "the grammar has {} bytes, but at most {} are compiled",
                             text.size(), limits_.text_bytes));
  const double until = now_seconds() + limits_.seconds;
  const std::string key = client.space + '\0' + text;
  if (const auto it = by_key_.find(key); it != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, it->second);
    Job& job = *it->second->job;
    stats_.cached++;
    if (job.result) return answer(Compiled(*job.result));
    job.waiters.push_back({client, std::move(done), until});
  } else {
    if (is_full(client.name)) return answer(busy());
    auto job = std::make_shared<Job>();
    job->key = key;
    job->text_at = client.space.size() + 1;
    job->waiters.push_back({client, std::move(done), until});
    entries_.push_front({job});
    by_key_.emplace(key, entries_.begin());
    submit(job);
  }
  wake_watch_.notify_one();
}

GrammarCompiler::GrammarCompiler(GrammarVocab vocab, GrammarLimits limits)
    : impl_(std::make_unique<Impl>(std::move(vocab), limits)) {}
GrammarCompiler::~GrammarCompiler() = default;

void GrammarCompiler::compile(std::string text, const GrammarClient& client, GrammarDone done) {
  impl_->compile(text, client, std::move(done));
}

Compiled GrammarCompiler::compile(const std::string& text) {
  std::promise<Compiled> promise;
  const auto waits = std::make_shared<int>();
  compile(text, {waits}, [&](Compiled result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

GrammarStats GrammarCompiler::stats() const {
  return impl_->stats();
}

}  // namespace anabranch
