#include "decode/grammar.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <regex>
#include <thread>
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

using Compiled = Result<std::shared_ptr<const CompiledGrammar>>;

// The library's messages begin with time, source file and line.
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

  // The library warns of tokens without text.
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

// What the compiler and its thread share.
struct GrammarCompiler::Shared {
  struct Job {
    std::string text;
    std::optional<Compiled> result;
    double started = 0;      // of its compilation
    bool timed_out = false;  // somebody gave up on it
  };
  struct Entry {
    std::shared_ptr<Job> job;
    size_t bytes = 0;
  };

  explicit Shared(GrammarVocab v, GrammarLimits l) : vocab(std::move(v)), limits(l) {}

  void run();
  Compiled build(const std::string& text);
  void make_room();
  Error too_slow() const {
    return make_error(ErrorKind::exhausted, "the grammar takes longer than {} s to compile; make it simpler",
                      limits.seconds);
  }

  GrammarVocab vocab;
  const GrammarLimits limits;
  std::optional<xgrammar::GrammarCompiler> compiler;  // the thread's; made for the first grammar

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable work, done;
  std::deque<std::shared_ptr<Job>> queue;
  std::list<Entry> entries;  // the most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_text;
  size_t bytes = 0;
  GrammarStats stats;
  bool stopping = false;
  std::thread thread;
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
    return std::make_shared<const CompiledGrammar>(compiler->CompileGrammar(text));
  } catch (const std::exception& e) {
    return make_error(ErrorKind::invalid, "the grammar is not valid: {}", message_of(e));
  }
}

// Forgets what was used longest ago.
void GrammarCompiler::Shared::make_room() {
  for (auto it = entries.end(); it != entries.begin() && entries.size() > 1;) {
    --it;
    if (bytes <= limits.cache_bytes && entries.size() <= limits.cache_entries) return;
    if (!it->job->result) continue;  // still to be compiled
    bytes -= it->bytes;
    by_text.erase(it->job->text);
    it = entries.erase(it);
  }
}

void GrammarCompiler::Shared::run() {
  std::unique_lock lock(mutex);
  while (true) {
    work.wait(lock, [&] { return stopping || !queue.empty(); });
    if (stopping) return;
    const auto job = queue.front();
    queue.pop_front();
    const double start = job->started = now_seconds();
    lock.unlock();
    Compiled result = build(job->text);
    const double seconds = now_seconds() - start;
    lock.lock();
    stats.compiled++;
    stats.compile_s += seconds;
    // Whoever asks again is told the same: the answer does not depend on how busy the machine was just now.
    if (job->timed_out) result = too_slow();
    if (const auto it = by_text.find(job->text); it != by_text.end() && it->second->job == job) {
      it->second->bytes = job->text.size() + (result.ok() ? (*result)->grammar.MemorySizeBytes() : 0);
      bytes += it->second->bytes;
    }
    job->result.emplace(std::move(result));
    make_room();
    done.notify_all();
  }
}

GrammarCompiler::GrammarCompiler(GrammarVocab vocab, GrammarLimits limits)
    : shared_(std::make_shared<Shared>(std::move(vocab), limits)) {
  shared_->thread = std::thread([shared = shared_.get()] { shared->run(); });
}

GrammarCompiler::~GrammarCompiler() {
  {
    std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
  }
  shared_->work.notify_all();
  shared_->thread.join();
}

Compiled GrammarCompiler::compile(const std::string& text) {
  Shared& s = *shared_;
  std::unique_lock lock(s.mutex);
  if (text.size() > s.limits.text_bytes) {
    s.stats.refused++;
    return make_error(ErrorKind::exhausted, "the grammar has {} bytes, but at most {} are compiled",
                      text.size(), s.limits.text_bytes);
  }
  constexpr size_t kMostWaiting = 32;
  const auto slow = [&] {
    s.stats.refused++;
    return s.too_slow();
  };
  const auto busy = [&] {
    s.stats.refused++;
    return make_error(ErrorKind::busy, "other grammars are being compiled; try again later");
  };
  std::shared_ptr<Shared::Job> job;
  if (const auto it = s.by_text.find(text); it != s.by_text.end()) {
    s.entries.splice(s.entries.begin(), s.entries, it->second);
    job = it->second->job;
    s.stats.cached++;
    if (job->timed_out && !job->result) return slow();
  } else {
    if (s.queue.size() >= kMostWaiting) return busy();
    job = std::make_shared<Shared::Job>();
    job->text = text;
    s.entries.push_front({job});
    s.by_text.emplace(text, s.entries.begin());
    s.queue.push_back(job);
    s.work.notify_one();
  }
  const auto ready = [&] { return job->result.has_value(); };
  const auto waiting = [&] { return std::find(s.queue.begin(), s.queue.end(), job) != s.queue.end(); };
  const auto wait = [&](double seconds) {
    return s.done.wait_for(lock, std::chrono::duration<double>(seconds), ready);
  };
  bool done = wait(s.limits.seconds);
  // What waited for others has its own time from when it began.
  if (!done && !waiting()) done = wait(std::max(0.0, job->started + s.limits.seconds - now_seconds()));
  if (!done) {
    if (waiting()) return busy();
    job->timed_out = true;
    return slow();
  }
  if (!job->result->ok()) s.stats.refused++;
  return *job->result;
}

GrammarStats GrammarCompiler::stats() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->stats;
}

}  // namespace anabranch
