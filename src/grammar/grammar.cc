#include "grammar/grammar.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <future>
#include <list>
#include <mutex>
#include <optional>
#include <regex>
#include <unordered_map>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace anabranch {

class CompiledGrammar {
 public:
  explicit CompiledGrammar(xgrammar::CompiledGrammar grammar) : grammar(std::move(grammar)) {}
  xgrammar::CompiledGrammar grammar;
};

namespace {

std::atomic<bool> left_behind{false};

using Compiled = Result<std::shared_ptr<const CompiledGrammar>>;

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

DLTensor as_tensor(std::vector<uint32_t>& words, int64_t& shape) {
  DLTensor tensor{};
  tensor.data = words.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = 1;
  tensor.dtype = xgrammar::GetBitmaskDLType();
  shape = static_cast<int64_t>(words.size());
  tensor.shape = &shape;
  return tensor;
}

}  // namespace

struct GrammarMatcher::Impl {
  explicit Impl(std::shared_ptr<const CompiledGrammar> compiled)
      : grammar(std::move(compiled)),
        matcher(grammar->grammar),
        words(xgrammar::GetBitmaskSize(grammar->grammar.GetTokenizerInfo().GetVocabSize())) {}

  // Otherwise the library logs a warning for tokens without text.
  bool take(int token) {
    const auto& tokens = grammar->grammar.GetTokenizerInfo().GetDecodedVocab();
    const auto& ends = matcher.GetStopTokenIds();
    if (token < 0 || static_cast<size_t>(token) >= tokens.size() || matcher.IsTerminated()) return false;
    if (tokens[static_cast<size_t>(token)].empty() &&
        std::find(ends.begin(), ends.end(), token) == ends.end())
      return false;
    return matcher.AcceptToken(token);
  }

  std::shared_ptr<const CompiledGrammar> grammar;
  xgrammar::GrammarMatcher matcher;
  std::vector<uint32_t> words;
  bool filled = false;
};

GrammarMatcher::GrammarMatcher(std::shared_ptr<const CompiledGrammar> grammar)
    : impl_(std::make_unique<Impl>(std::move(grammar))) {}
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher&&) noexcept = default;
GrammarMatcher::~GrammarMatcher() = default;

std::span<const uint32_t> GrammarMatcher::mask() {
  if (!impl_->filled) {
    if (impl_->matcher.IsTerminated()) {
      std::fill(impl_->words.begin(), impl_->words.end(), 0u);
    } else {
      int64_t shape;
      DLTensor tensor = as_tensor(impl_->words, shape);
      if (!impl_->matcher.FillNextTokenBitmask(&tensor))
        std::fill(impl_->words.begin(), impl_->words.end(), ~0u);
    }
    impl_->filled = true;
  }
  return impl_->words;
}

bool GrammarMatcher::allows(int token) {
  const auto words = mask();
  const size_t word = static_cast<size_t>(token) / 32;
  return token >= 0 && word < words.size() && (words[word] >> (token % 32) & 1u);
}

bool GrammarMatcher::accept(int token) {
  if (!impl_->take(token)) return false;
  impl_->filled = false;
  return true;
}

size_t GrammarMatcher::count_accepted(std::span<const int> tokens) {
  size_t count = 0;
  while (count < tokens.size() && impl_->take(tokens[count])) count++;
  if (count > 0) impl_->matcher.Rollback(static_cast<int>(count));
  return count;
}

bool GrammarMatcher::complete() const {
  return impl_->matcher.IsCompleted() || impl_->matcher.IsTerminated();
}

// The state that the compiler shares with its two threads. One thread compiles. A compilation cannot be
// stopped, so the other thread answers the clients whose time is over.
struct GrammarCompiler::Shared {
  struct Waiter {
    std::weak_ptr<const void> client;
    GrammarDone done;
    double until = 0;  // the latest time at which its job may leave the queue
  };
  struct Job {
    std::string text;
    std::optional<Compiled> result;
    std::vector<Waiter> waiters;
    double started = 0;      // when its compilation began; 0 while it is queued
    bool timed_out = false;  // its clients have been told that it takes too long
  };
  struct Entry {
    std::shared_ptr<Job> job;
    size_t bytes = 0;
  };
  // Answers to deliver once the lock is released.
  using Answers = std::vector<std::pair<Waiter, Compiled>>;

  explicit Shared(GrammarVocab v, GrammarLimits l) : vocab(std::move(v)), limits(l) {}

  void work();
  void watch();
  Compiled build(const std::string& text);
  void keep(const std::shared_ptr<Job>& job, Compiled result);
  void expire(Answers& answers);
  void drop_unwanted();
  void forget(const std::shared_ptr<Job>& job);
  void make_room();
  static void answer_all(Job& job, const Compiled& result, Answers& answers) {
    for (Waiter& waiter : job.waiters) answers.emplace_back(std::move(waiter), result);
    job.waiters.clear();
  }
  static void tell(Answers& answers) {
    for (auto& [waiter, result] : answers)
      if (!waiter.client.expired()) waiter.done(std::move(result));
    answers.clear();
  }
  Error too_slow() const {
    return make_error(ErrorKind::exhausted, "the grammar takes longer than {} s to compile; make it simpler",
                      limits.seconds);
  }
  static Error busy() {
    return make_error(ErrorKind::busy, "other grammars are being compiled; try again later");
  }

  GrammarVocab vocab;
  const GrammarLimits limits;
  std::optional<xgrammar::GrammarCompiler> compiler;  // used by the worker only; made for the first grammar

  mutable std::mutex mutex;  // guards the members below
  std::condition_variable wake_worker, wake_watch, idle;
  std::deque<std::shared_ptr<Job>> queue;
  std::shared_ptr<Job> current;  // the job that is being compiled
  std::list<Entry> entries;      // most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_text;
  size_t bytes = 0;
  GrammarStats stats;
  bool stopping = false;
};

Compiled GrammarCompiler::Shared::build(const std::string& text) {
  try {
    if (!compiler) {
      const std::vector<int32_t> ends(vocab.ends.begin(), vocab.ends.end());
      const xgrammar::TokenizerInfo info(vocab.tokens, xgrammar::VocabType::RAW,
                                         static_cast<int>(vocab.tokens.size()), ends);
      compiler.emplace(info, 2, false);
      vocab.tokens = {};
    }
    const auto grammar = std::make_shared<const CompiledGrammar>(compiler->CompileGrammar(text));
    GrammarMatcher start(grammar);
    const auto mask = start.mask();
    if (std::all_of(mask.begin(), mask.end(), [](uint32_t word) { return word == 0; }))
      return make_error(
          ErrorKind::invalid,
          "the grammar can produce nothing: no token of the model begins a text that follows it");
    return grammar;
  } catch (const std::exception& e) {
    return make_error(ErrorKind::invalid, "the grammar is not valid: {}", message_of(e));
  }
}

// Removes the least recently used results until the cache is within its limits.
void GrammarCompiler::Shared::make_room() {
  for (auto it = entries.end(); it != entries.begin() && entries.size() > 1;) {
    --it;
    if (bytes <= limits.cache_bytes && entries.size() <= limits.cache_entries) return;
    if (!it->job->result) continue;  // not yet compiled
    bytes -= it->bytes;
    by_text.erase(it->job->text);
    it = entries.erase(it);
  }
}

void GrammarCompiler::Shared::forget(const std::shared_ptr<Job>& job) {
  const auto it = by_text.find(job->text);
  entries.erase(it->second);
  by_text.erase(it);
}

// Removes the queued jobs whose clients have all expired.
void GrammarCompiler::Shared::drop_unwanted() {
  std::erase_if(queue, [&](const std::shared_ptr<Job>& job) {
    std::erase_if(job->waiters, [](const Waiter& waiter) { return waiter.client.expired(); });
    if (job->waiters.empty()) forget(job);
    return job->waiters.empty();
  });
}

void GrammarCompiler::Shared::keep(const std::shared_ptr<Job>& job, Compiled result) {
  auto& entry = *by_text.at(job->text);
  entry.bytes = job->text.size() + (result.ok() ? (*result)->grammar.MemorySizeBytes() : 0);
  bytes += entry.bytes;
  job->result.emplace(std::move(result));
  make_room();
}

void GrammarCompiler::Shared::work() {
  std::unique_lock lock(mutex);
  while (true) {
    wake_worker.wait(lock, [&] { return stopping || !queue.empty(); });
    drop_unwanted();
    if (stopping) return;
    if (queue.empty()) continue;
    const auto job = current = queue.front();
    queue.pop_front();
    const double start = job->started = now_seconds();
    wake_watch.notify_one();
    lock.unlock();
    Compiled result = build(job->text);
    lock.lock();
    current.reset();
    stats.compiled++;
    stats.compile_s += now_seconds() - start;
    if (!result.ok()) stats.refused += job->waiters.size();
    Answers answers;
    if (!stopping) answer_all(*job, result, answers);
    keep(job, std::move(result));
    idle.notify_all();
    lock.unlock();
    tell(answers);
    lock.lock();
  }
}

// Collects the answers for clients whose time is over.
void GrammarCompiler::Shared::expire(Answers& answers) {
  const double now = now_seconds();
  if (current && !current->timed_out && now >= current->started + limits.seconds) {
    current->timed_out = true;
    answer_all(*current, too_slow(), answers);
  }
  for (const auto& job : queue)
    std::erase_if(job->waiters, [&](Waiter& waiter) {
      if (now < waiter.until) return false;
      answers.emplace_back(std::move(waiter), busy());
      return true;
    });
  stats.refused += answers.size();
  drop_unwanted();
}

void GrammarCompiler::Shared::watch() {
  constexpr double kForever = 3600;
  std::unique_lock lock(mutex);
  while (!stopping) {
    double next = now_seconds() + kForever;
    if (current && !current->timed_out) next = std::min(next, current->started + limits.seconds);
    for (const auto& job : queue)
      for (const Waiter& waiter : job->waiters) next = std::min(next, waiter.until);
    wake_watch.wait_for(lock, std::chrono::duration<double>(next - now_seconds()));
    if (stopping) return;
    Answers answers;
    expire(answers);
    lock.unlock();
    tell(answers);
    lock.lock();
  }
}

GrammarCompiler::GrammarCompiler(GrammarVocab vocab, GrammarLimits limits)
    : shared_(std::make_shared<Shared>(std::move(vocab), limits)),
      worker_([shared = shared_] { shared->work(); }),
      watch_([shared = shared_] { shared->watch(); }) {}

bool GrammarCompiler::left_one_behind() {
  return left_behind;
}

GrammarCompiler::~GrammarCompiler() {
  constexpr std::chrono::milliseconds kPatience(500);
  bool is_idle;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stopping = true;
    shared_->wake_worker.notify_all();
    shared_->wake_watch.notify_all();
    is_idle = shared_->idle.wait_for(lock, kPatience, [&] { return !shared_->current; });
  }
  watch_.join();
  if (!is_idle) left_behind = true;
  is_idle ? worker_.join() : worker_.detach();
}

void GrammarCompiler::compile(std::string text, std::weak_ptr<const void> client, GrammarDone done) {
  constexpr size_t kMostWaiting = 32;
  Shared& s = *shared_;
  std::unique_lock lock(s.mutex);
  const auto answer = [&](const Compiled& result) {
    if (!result.ok()) s.stats.refused++;
    lock.unlock();
    done(result);
  };
  if (text.size() > s.limits.text_bytes)
    return answer(make_error(ErrorKind::exhausted, "the grammar has {} bytes, but at most {} are compiled",
                             text.size(), s.limits.text_bytes));
  const double until = now_seconds() + s.limits.seconds;
  if (const auto it = s.by_text.find(text); it != s.by_text.end()) {
    s.entries.splice(s.entries.begin(), s.entries, it->second);
    Shared::Job& job = *it->second->job;
    s.stats.cached++;
    if (job.result) return answer(Compiled(*job.result));
    if (job.timed_out) return answer(s.too_slow());
    job.waiters.push_back({std::move(client), std::move(done), until});
  } else {
    s.drop_unwanted();
    if (s.queue.size() >= kMostWaiting) return answer(Shared::busy());
    auto job = std::make_shared<Shared::Job>();
    job->text = std::move(text);
    job->waiters.push_back({std::move(client), std::move(done), until});
    s.entries.push_front({job});
    s.by_text.emplace(job->text, s.entries.begin());
    s.queue.push_back(std::move(job));
    s.wake_worker.notify_one();
  }
  s.wake_watch.notify_one();
}

Compiled GrammarCompiler::compile(const std::string& text) {
  std::promise<Compiled> promise;
  const auto client = std::make_shared<int>();
  compile(text, client, [&](Compiled result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

GrammarStats GrammarCompiler::stats() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->stats;
}

}  // namespace anabranch
