#include "cli/conversation.h"

#include <fmt/core.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <deque>
#include <mutex>

#include "base/log.h"
#include "base/outside_text.h"
#include "base/user_directory.h"
#include "chat/engine_request.h"
#include "cli/print.h"
#include "cli/printer.h"
#include "cli/process.h"
#include "ops/open.h"
#include "output/output_text.h"

namespace anabranch::cli {

int fail(const Error& error) {
  std::fflush(stdout);
  if (log_format() == LogFormat::json)
    log_error("{}", error.message);
  else
    say(stderr, "error: {}\n", error.message);
  return 1;
}

Result<LoadedModel> load_on_device(const EngineOptions& options) {
  TRY(std::shared_ptr<Device> device, ops::open_device(options.device));
  return load_model(options.model_path, std::move(device), {.overcommit = options.overcommit});
}

std::string state_directory(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  const std::string own = user_cache_directory();
  return own.empty() ? own : own + "/states";
}

CacheOptions cache_options(CacheOptions cache, const CacheFlags& keep) {
  cache.enabled = !keep.off;
  cache.disk_worth_s = keep.disk_worth_s.value_or(kUsualDiskWorth);
  cache.directory = cache.disk_bytes == 0 ? "" : state_directory(cache.directory);
  return cache;
}

Result<EngineOptions> engine_options(EngineOptions engine, const SpecFlags& spec, const CacheFlags& keep) {
  TRY(engine.speculation, parse_spec_mode(spec.source, spec.depth));
  engine.cache = cache_options(std::move(engine.cache), keep);
  engine.keep_statistics = true;
  return engine;
}

Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options) {
  const bool terminal = isatty(STDERR_FILENO);
  EngineOptions watched = options;
  if (terminal) {
    const std::string name = shown(options.model_path);
    say(stderr, "\rloading {} ...", name);
    watched.loading = [name](int done, int total) {
      say(stderr, "\rloading {}: {} %\033[K", name, 100 * done / total);
    };
  }
  auto made = Engine::create(watched);
  if (terminal) say(stderr, "\r\033[K");
  return made;
}

Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options, const SpecFlags& spec,
                                            const CacheFlags& keep) {
  TRY(const auto to_create, engine_options(options, spec, keep));
  return make_engine(to_create);
}

std::atomic<bool>& interrupt_flag() {
  static std::atomic<bool> flag{false};
  return flag;
}

namespace {

// Makes Ctrl-C set interrupt_flag(). Returns the action before.
struct sigaction set_the_flag_on_interrupt() {
  interrupt_flag();  // create the flag before the handler may use it
  return handle_signal(SIGINT, [](int) { interrupt_flag() = true; });
}

}  // namespace

std::atomic<bool>& catch_interrupts() {
  set_the_flag_on_interrupt();
  return interrupt_flag();
}

InterruptsCaught::InterruptsCaught() {
  interrupt_flag() = false;
  before_ = set_the_flag_on_interrupt();
}

InterruptsCaught::~InterruptsCaught() {
  sigaction(SIGINT, &before_, nullptr);
  if (interrupt_flag() && !taken_) std::raise(SIGINT);
}

namespace {

// Passes events from the engine's thread to the printing thread.
class EventQueue {
 public:
  void push(const Event& event) {
    std::lock_guard lock(mutex_);
    events_.push_back(event);
    ready_.notify_one();
  }
  // The next event, or none after 50 ms.
  std::optional<Event> pop() {
    std::unique_lock lock(mutex_);
    if (!ready_.wait_for(lock, std::chrono::milliseconds(50), [&] { return !events_.empty(); })) return {};
    Event event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Event> events_;
};

}  // namespace

Result<Answer> run_prompt(Engine& engine, const Prepared& prepared, bool silent,
                          const std::atomic<bool>& interrupt,
                          const std::function<void(int tokens)>& progress) {
  Request request = engine_request(prepared, 0, prepared.options.sampling.seed);
  request.name_states = true;
  OutputText output(engine.tokenizer(), request.stop, prepared.rules);
  Printer printer(silent);
  Answer answer;
  ParsedOutput parsed;
  const auto emit = [&](const std::vector<OutputEvent>& events) {
    for (const OutputEvent& event : events) {
      if (event.kind == OutputEvent::Kind::reasoning) printer.reasoning(event.text);
      if (event.kind == OutputEvent::Kind::content) printer.content(event.text);
      parsed.add(event);
    }
  };

  auto queue = std::make_shared<EventQueue>();
  TRY(const RequestId id,
      engine.submit(std::move(request), [queue](const Event& event) { queue->push(event); }));
  bool cancelled = false;
  for (;;) {
    if (interrupt.load() && !cancelled) {
      engine.cancel(id);
      cancelled = true;
    }
    const auto event = queue->pop();
    if (!event) continue;
    answer.tokens.insert(answer.tokens.end(), event->tokens.begin(), event->tokens.end());
    answer.logprobs.insert(answer.logprobs.end(), event->logprobs.begin(), event->logprobs.end());
    emit(output.push(event->tokens));
    if (progress && !event->tokens.empty()) progress(static_cast<int>(answer.tokens.size()));
    if (event->finish == FinishReason::none) continue;
    emit(output.finish(event->finish != FinishReason::stop));
    printer.finish(parsed.calls.empty() || !parsed.content.empty());
    if (event->finish == FinishReason::error) return Error{ErrorKind::internal, event->error};
    answer.text = std::move(parsed.content);
    answer.reasoning = std::move(parsed.reasoning);
    answer.calls = std::move(parsed.calls);
    answer.stop_found = !output.stop_found().empty() || output.stop_token_found();
    answer.finish = event->finish;
    answer.usage = event->usage;
    answer.states = event->states;
    return answer;
  }
}

double prefill_rate(const Usage& usage) {
  return usage.prefill_s > 0 ? (usage.prompt_tokens - usage.cached_tokens) / usage.prefill_s : 0;
}

double decode_rate(const Usage& usage) {
  return usage.decode_s > 0 ? (usage.completion_tokens - 1) / usage.decode_s : 0;
}

std::string describe(const Usage& usage) {
  return fmt::format(
             "prompt {} tokens ({:.0f} tok/s), answer {} tokens ({:.1f} tok/s), first token after {:.2f} s",
             usage.prompt_tokens, prefill_rate(usage), usage.completion_tokens, decode_rate(usage),
             usage.ttft_s) +
         (usage.cut.empty() ? "" : fmt::format(", cut: {}", usage.cut));
}

}  // namespace anabranch::cli
