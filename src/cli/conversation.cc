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
#include "chat/prompt_compiler.h"
#include "cli/print.h"
#include "cli/printer.h"
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

Result<LoadedModel> load_on_device(const ModelOptions& options) {
  TRY(std::shared_ptr<Device> device,
      ops::open_device({options.device, options.reference, options.precise, options.threads,
                        options.expert_bytes, options.devices}));
  return load_model(options.model, std::move(device), {.overcommit = options.overcommit});
}

std::string state_directory(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  const std::string own = user_cache_directory();
  return own.empty() ? own : own + "/states";
}

CacheOptions cache_options(const CacheFlags& keep) {
  CacheOptions cache;
  cache.enabled = !keep.off;
  cache.ram_bytes = keep.ram_bytes;
  cache.disk_bytes = keep.disk_bytes.value_or(0);
  cache.disk_worth_s = keep.disk_worth_s.value_or(kUsualDiskWorth);
  cache.kv = keep.kv == "q8" ? KvForm::q8 : KvForm::exact;
  const bool on_disk = !keep.disk_bytes || *keep.disk_bytes > 0;
  if (on_disk) cache.directory = state_directory(keep.directory);
  return cache;
}

Result<EngineOptions> engine_options(const ModelOptions& options, const SpecOptions& spec,
                                     const CacheFlags& keep) {
  EngineOptions engine;
  engine.model_path = options.model;
  engine.threads = options.threads;
  engine.precise = options.precise;
  engine.reference = options.reference;
  engine.overcommit = options.overcommit;
  engine.device = options.device;
  engine.expert_bytes = options.expert_bytes;
  engine.devices = options.devices;
  engine.context_length = options.context;
  engine.prefill_chunk = options.prefill_chunk;
  engine.chat_template_path = options.chat_template;
  if (!options.pooling.empty())
    engine.pooling = options.pooling == "cls"    ? Pooling::first
                     : options.pooling == "last" ? Pooling::last
                     : options.pooling == "rank" ? Pooling::rank
                                                 : Pooling::mean;
  TRY(engine.speculation, parse_spec_mode(spec.source, spec.depth));
  engine.draft_path = spec.draft;
  engine.lossy_skip = spec.lossy_skip;
  engine.cache = cache_options(keep);
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

Result<std::unique_ptr<Engine>> make_engine(const ModelOptions& options, const SpecOptions& spec,
                                            const CacheFlags& keep) {
  TRY(const auto to_create, engine_options(options, spec, keep));
  return make_engine(to_create);
}

SamplingParams sampling_params(const SamplingOptions& options, const Engine& engine, uint64_t default_seed) {
  SamplingParams params = engine.default_sampling();
  if (options.temperature) params.temperature = *options.temperature;
  if (options.top_p) params.top_p = *options.top_p;
  if (options.top_k) params.top_k = *options.top_k;
  if (options.min_p) params.min_p = *options.min_p;
  if (options.repetition_penalty) params.repetition_penalty = *options.repetition_penalty;
  if (options.presence_penalty) params.presence_penalty = *options.presence_penalty;
  if (options.frequency_penalty) params.frequency_penalty = *options.frequency_penalty;
  params.seed = options.seed.value_or(default_seed);
  return params;
}

ThinkingWish thinking_wish(const ThinkFlags& flags) {
  ThinkingWish wish;
  wish.budget = flags.max_tokens;
  const bool none = flags.mode == "auto" && flags.max_tokens == 0;
  wish.mode = flags.mode == "on"            ? ThinkMode::on
              : flags.mode == "off" || none ? ThinkMode::off
                                            : ThinkMode::automatic;
  wish.said_by = none ? "--max-thinking-tokens 0" : "--thinking " + flags.mode;
  return wish;
}

Result<void> check_chat_template(const Engine& engine, const ThinkFlags& thinking) {
  const auto* chat = engine.chat_template();
  if (!chat)
    return make_error(ErrorKind::unsupported,
                      "{} brings no chat template: give one with --chat-template-file, or use `generate "
                      "--raw` to continue plain text",
                      engine.info().name);
  if (thinking.mode == "on" && !chat->mentions("enable_thinking"))
    return make_error(ErrorKind::unsupported, "{}'s chat template knows no thinking: leave --thinking out",
                      engine.info().name);
  return {};
}

namespace {

// Of what may be endless, no more is tokenised.
EncodeLimit context_limit(const Engine& engine) {
  return {static_cast<size_t>(engine.info().context_length), [] { return interrupt_flag().load(); }};
}

Error too_long(const Engine& engine) {
  return make_error(
      ErrorKind::exhausted,
      "the prompt has more than {0} tokens, but the context is {0} tokens long and the answer needs room "
      "too: shorten it, or raise --context as far as the model allows",
      engine.info().context_length);
}

}  // namespace

Result<Prompt> make_chat_prompt(const Engine& engine, const Json& messages, const ThinkFlags& thinking,
                                const std::vector<std::string>& stop) {
  TRY_VOID(check_chat_template(engine, thinking));
  const auto* chat = engine.chat_template();
  PromptCompiler compiler(*chat, engine.tokenizer(), engine.image_format());
  const auto compile = [&](std::optional<bool> enable) {
    TemplateOptions options;
    options.enable_thinking = enable;
    EncodeLimit limit = context_limit(engine);
    auto compiled = compiler.compile(messages, nullptr, options, {}, {}, &limit);
    if (limit.too_long()) return Result<CompiledPrompt>(too_long(engine));
    return compiled;
  };
  Prompt prompt;
  const auto& tags = prompt.rules.format.reasoning = find_reasoning_tags(engine.tokenizer());
  const auto wish = thinking_wish(thinking);
  const std::string user = last_user_text(messages);
  ChosenPrompt chosen;
  if (thinking.mode.empty()) {
    TRY(chosen.prompt, compile(std::nullopt));
    chosen.open = tags && opens_reasoning(chosen.prompt.pieces, *tags);
  } else {
    TRY(chosen, choose_thinking(wish, *chat, tags, user, compile));
    log_debug("thinking {}: {}", chosen.thinking.enabled ? "on" : "off", chosen.thinking.reason);
  }
  prompt.thinking = think_options(wish, chosen, {.user = user, .stop = stop});
  prompt.tokens = std::move(chosen.prompt.tokens);
  prompt.keep_at = std::move(chosen.prompt.stable_lengths);
  prompt.rules.thinking_open = chosen.open;
  prompt.think_report = std::move(chosen.thinking);
  return prompt;
}

Result<Prompt> make_checked_raw_prompt(const Engine& engine, const std::string& text) {
  EncodeLimit limit = context_limit(engine);
  (void)engine.tokenizer().encode(text, true, &limit);
  if (limit.too_long()) return too_long(engine);
  return make_raw_prompt(engine, text);
}

Prompt make_raw_prompt(const Engine& engine, const std::string& text) {
  Prompt prompt;
  prompt.tokens = engine.tokenizer().encode(text, true);
  add_leading_bos(engine.tokenizer(), prompt.tokens);
  return prompt;
}

std::atomic<bool>& interrupt_flag() {
  static std::atomic<bool> flag{false};
  return flag;
}

namespace {

// Returns what was done before.
struct sigaction set_the_flag_on_interrupt() {
  interrupt_flag();  // the handler must not be the first to need it
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { interrupt_flag() = true; };
  sigaction(SIGINT, &action, &before);
  return before;
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

// Events cross from the engine thread to the printing one here.
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

Result<Answer> run_prompt(Engine& engine, Prompt prompt, Request request, bool silent,
                          const std::atomic<bool>& interrupt,
                          const std::function<void(int tokens)>& progress) {
  request.prompt = std::move(prompt.tokens);
  request.images = std::move(prompt.images);
  request.keep_at = std::move(prompt.keep_at);
  request.output = prompt.rules;
  request.thinking = std::move(prompt.thinking);
  request.name_states = true;
  OutputText output(engine.tokenizer(), request.stop, prompt.rules);
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
    answer.stop_found = !output.stop_found().empty();
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
