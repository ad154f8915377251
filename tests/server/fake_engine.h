// An engine without a model for the server's tests: byte tokens, scripted answers, one stepping thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "fake_tokenizer.h"
#include "output/output_text.h"
#include "server/api/model_source.h"
#include "slow.h"

namespace anabranch::server {

// "role: content\n" for each message, what else it knows in brackets, then "assistant:" (and "<think>").
class FakeTemplate final : public ChatTemplate {
 public:
  Result<std::vector<PromptPiece>> render(const Json& messages, const Json& tools,
                                          const TemplateOptions& options) const override {
    std::vector<PromptPiece> pieces;
    if (tools.is_array()) pieces.push_back({"[tools " + tools.dump() + "]\n", false});
    if (!options.extra.empty()) pieces.push_back({"[extra " + options.extra.dump() + "]\n", false});
    for (const Json& message : messages) {
      const std::string content = message["content"].get<std::string>();
      if (content == "raise") return make_error(ErrorKind::invalid, "no such conversation");
      pieces.push_back({message["role"].get<std::string>() + ": ", true});
      pieces.push_back({content, false});
      for (const char* key : {"reasoning_content", "tool_calls", "tool_call_id", "name"})
        if (message.contains(key))
          pieces.push_back({fmt::format("[{}={}]", key, message[key].dump()), false});
      pieces.push_back({"\n", true});
    }
    if (!options.add_generation_prompt) return pieces;
    pieces.push_back({"assistant:", true});
    if (options.enable_thinking.value_or(!knows_thinking)) pieces.push_back({"<think>\n", true});
    return pieces;
  }
  bool mentions(std::string_view variable) const override {
    return knows_thinking || variable != "enable_thinking";
  }
  // False: it opens a thought unless told not to, and does not say that it can be told.
  std::atomic<bool> knows_thinking{true};
};

// What the engine answers to a request: one event per part, `delay` apart.
struct Script {
  std::vector<std::string> parts;
  std::chrono::milliseconds delay{0};
  FinishReason finish = FinishReason::stop;
  std::string error;
  bool repeat = false;  // start over at the end, for ever
  int thinking_tokens = 0;
  std::string cut;                       // as of Usage
  std::vector<std::string> states = {};  // as of Event, at the end
  bool stuck = false;                    // it reads the prompt until it is cancelled
};

class FakeEngine final : public Engine {
 public:
  FakeEngine() {
    info_.name = "fake-1b";
    info_.path = "/models/fake-1b";
    info_.family = "fake";
    info_.context_length = 1000;
    thread_ = std::thread([this] { run(); });
  }
  ~FakeEngine() override {
    {
      std::lock_guard lock(mutex_);
      quit_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  // Set before the server starts or between requests.
  std::function<Script(const Request&)> script = [](const Request&) {
    return Script{{"Hello", ", ", "world", "."}};
  };
  std::atomic<int> max_queue{1000};
  std::atomic<bool> has_template{true}, lost{false}, on_card{false}, takes_beginnings{true}, caches{false};
  SharedStates* shared = nullptr;
  SharedStates* shared_states() const override { return shared; }

  Result<RequestId> submit(Request request, Sink sink) override {
    std::lock_guard lock(mutex_);
    if (static_cast<int>(running_.size()) >= max_queue)
      return make_error(ErrorKind::busy, "{} requests are waiting; try again later", running_.size());
    const RequestId id = next_++;
    running_[id] = Sequence{request, std::move(sink), script(request)};
    running_[id].text = std::make_shared<OutputText>(tokenizer_, request.stop, request.output);
    last_ = std::move(request);
    ++stats_.requests;
    wake_.notify_all();
    return id;
  }
  void compile_grammar(std::string text, const GrammarClient&, GrammarDone done) const override {
    done(compile_grammar(text));
  }
  Result<std::shared_ptr<const CompiledGrammar>> compile_grammar(const std::string& text) const override {
    std::lock_guard lock(mutex_);
    grammar_ = text;
    return std::shared_ptr<const CompiledGrammar>();
  }
  Result<void> check_beginning(std::shared_ptr<const CompiledGrammar>, std::span<const int>) const override {
    if (takes_beginnings) return {};
    return make_error(ErrorKind::invalid, "no answer can begin like this");
  }
  // The last one that was compiled.
  std::string grammar() const {
    std::lock_guard lock(mutex_);
    return grammar_;
  }
  // Invents an adapter of any path, whose digest is the path, but for those with "bad" in them, and those
  // whose last part is a fault of the machine.
  Result<std::shared_ptr<const LoadedAdapter>> load_adapter(const std::string& path) override {
    const std::string last = path.substr(path.rfind('/') + 1);
    if (last == "huge") throw std::bad_alloc();
    if (last == "cursed") throw std::runtime_error("an exception");
    if (last == "full") return make_error(ErrorKind::exhausted, "{}: the device has no memory for it", path);
    if (last == "late") return make_error(ErrorKind::busy, "the engine is stopping");
    if (path.find("bad") != path.npos) return make_error(ErrorKind::invalid, "{}: it fits no module", path);
    auto adapter = std::make_shared<LoadedAdapter>();
    adapter->path = adapter->digest = path;
    adapter->rank = 8;
    std::lock_guard lock(mutex_);
    adapters_.push_back(adapter);
    return std::shared_ptr<const LoadedAdapter>(std::move(adapter));
  }
  // Of the adapters that were loaded, those that somebody still has.
  std::vector<std::string> adapters() const {
    std::lock_guard lock(mutex_);
    std::vector<std::string> paths;
    for (const auto& one : adapters_)
      if (const auto adapter = one.lock()) paths.push_back(adapter->path);
    return paths;
  }
  void cancel(RequestId id) override {
    std::lock_guard lock(mutex_);
    auto it = running_.find(id);
    if (it != running_.end()) it->second.cancelled = true;
    wake_.notify_all();
  }
  std::vector<std::vector<uint64_t>> expert_rows() const override { return {{3, 0, 5, 0}, {1, 1, 1, 1}}; }
  const ModelInfo& info() const override { return info_; }
  std::optional<ImageFormat> images;  // set: it has a tower
  const ImageFormat* image_format() const override { return images ? &*images : nullptr; }
  EngineStats stats() const override {
    std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.running = static_cast<int>(running_.size());
    if (caches) stats.cache.emplace();
    return stats;
  }
  std::optional<DeviceMemory> device_memory() const override {
    return on_card ? std::optional(DeviceMemory{"Fake card", 1000, 300}) : std::nullopt;
  }
  bool device_lost() const override { return lost; }
  const Tokenizer& tokenizer() const override { return tokenizer_; }
  const ChatTemplate* chat_template() const override {
    if (family_template_) return family_template_.get();
    return has_template ? &template_ : nullptr;
  }
  const SamplingParams& default_sampling() const override { return sampling_; }

  Request last_request() const {
    std::lock_guard lock(mutex_);
    return last_;
  }
  std::string last_prompt() const {
    const Request request = last_request();
    return tokenizer_.decode(request.prompt, false);
  }
  // Reports a prefix cache from now on.
  void keep_states() {
    std::lock_guard lock(mutex_);
    stats_.cache.emplace();
  }
  ModelInfo& mutable_info() { return info_; }
  FakeTemplate& mutable_template() { return template_; }
  // A family's own template and marks; before the server starts.
  void set_context(int tokens) { info_.context_length = tokens; }
  void become(std::shared_ptr<const ChatTemplate> chat, std::vector<std::string> tags) {
    family_template_ = std::move(chat);
    tokenizer_.tags = {std::move(tags), true};
  }

  // Waits up to `seconds` until `condition` holds for the statistics.
  bool wait_for(const std::function<bool(const EngineStats&)>& condition,
                double seconds = kWaitSeconds) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (std::chrono::steady_clock::now() < end) {
      if (condition(stats())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return condition(stats());
  }

 private:
  struct Sequence {
    Request request;
    Sink sink;
    Script script;
    size_t next = 0;
    int tokens = 0;
    bool started = false, judged = false;
    std::shared_ptr<OutputText> text;
    bool cancelled = false;
    std::chrono::steady_clock::time_point due{};
  };

  // A token t has -t / 256; the alternatives are the tokens from 200 on.
  static TokenLogprobs fake_logprobs(int token, int top) {
    TokenLogprobs out{static_cast<float>(-token) / 256, {}};
    for (int i = 0; i < top; i++) out.top.push_back({200 + i, -0.5f * static_cast<float>(i + 1)});
    return out;
  }

  // One event of one sequence; true when it was the last.
  bool step(Sequence& s, Event& event) const {
    if (s.cancelled) {
      event.finish = FinishReason::cancelled;
    } else if (s.next < s.script.parts.size()) {
      event.tokens = tokenizer_.tokens_of(s.script.parts[s.next++]);
      s.text->push(event.tokens);
      if (s.script.repeat && s.next == s.script.parts.size()) s.next = 0;
    }
    const int room = s.request.max_tokens < 0 ? 1 << 30 : s.request.max_tokens - s.tokens;
    if (static_cast<int>(event.tokens.size()) >= room) {
      event.tokens.resize(room);
      event.finish = FinishReason::length;
    }
    s.tokens += static_cast<int>(event.tokens.size());
    if (s.text->stopped()) event.finish = FinishReason::stop;
    if (event.finish == FinishReason::none && s.next == s.script.parts.size() && !s.script.repeat) {
      event.finish = s.script.finish;
      event.error = s.script.error;
      if (event.finish == FinishReason::stop) event.tokens.push_back(kEndToken);
    }
    if (s.request.prompt_logprobs && !s.judged) {
      s.judged = true;
      for (size_t i = 1; i < s.request.prompt.size(); ++i)
        event.prompt_logprobs.push_back(fake_logprobs(s.request.prompt[i], s.request.logprobs));
    }
    if (s.request.logprobs >= 0)
      for (const int token : event.tokens) event.logprobs.push_back(fake_logprobs(token, s.request.logprobs));
    event.usage.prompt_tokens = static_cast<int>(s.request.prompt.size());
    event.usage.completion_tokens = s.tokens;
    event.usage.cached_tokens = 3;
    event.usage.thinking_tokens = s.script.thinking_tokens;
    event.usage.cut = s.script.cut;
    if (event.finish != FinishReason::none) event.states = s.script.states;
    return event.finish != FinishReason::none;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!quit_) {
      const auto now = std::chrono::steady_clock::now();
      auto next_due = now + std::chrono::seconds(1);
      for (auto it = running_.begin(); it != running_.end();) {
        Sequence& s = it->second;
        if (!s.cancelled && s.due > now) {
          next_due = std::min(next_due, s.due);
          ++it;
          continue;
        }
        if (!s.started && !s.cancelled) {
          s.started = true;
          Event event;
          event.started = true;
          event.usage.prompt_tokens = static_cast<int>(s.request.prompt.size());
          event.usage.cached_tokens = 3;
          s.sink(event);
        }
        if (s.script.stuck && !s.cancelled) {
          ++it;
          continue;
        }
        Event event;
        const bool last = step(s, event);
        s.due = now + s.script.delay;
        next_due = std::min(next_due, s.due);
        const Sink sink = s.sink;
        if (last) {
          if (event.finish == FinishReason::cancelled)
            ++stats_.cancelled;
          else if (event.finish == FinishReason::error)
            ++stats_.failed;
          else
            ++stats_.finished;
          it = running_.erase(it);
        } else {
          ++it;
        }
        sink(event);
      }
      wake_.wait_until(lock, next_due);
    }
  }

  FakeTokenizer tokenizer_;
  FakeTemplate template_;
  std::shared_ptr<const ChatTemplate> family_template_;
  ModelInfo info_;
  SamplingParams sampling_{0.25f, 7, 0.9f, 0.05f, 0};
  mutable std::mutex mutex_;
  mutable std::string grammar_;
  std::condition_variable wake_;
  std::map<RequestId, Sequence> running_;
  Request last_;
  std::vector<std::weak_ptr<const LoadedAdapter>> adapters_;
  EngineStats stats_;
  RequestId next_ = 0;
  bool quit_ = false;
  std::thread thread_;
};

// A server with this model alone. The engine must outlive it.
inline ServerModels served_by(FakeEngine& engine, ThinkingWish thinking = {}) {
  ServerModels models;
  models.first = ReadyModel{std::shared_ptr<Engine>(&engine, [](Engine*) {}), engine.default_sampling(),
                            std::move(thinking)};
  return models;
}

}  // namespace anabranch::server
