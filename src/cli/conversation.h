// What `generate` and `chat` share: an engine from flags, prompts from messages, and one answer printed as it
// comes.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "chat/thinking.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "engine/loader.h"
#include "output/output_parser.h"

namespace anabranch::cli {

// Prints "error: ..." to stderr and returns exit code 1.
int fail(const Error& error);

// The model on the device that the options name, for commands that run it without an engine.
Result<LoadedModel> load_on_device(const ModelOptions& options);

// Where states are kept on disk: `wanted`, or the default; empty when there is none.
std::string state_directory(const std::string& wanted);

// Loads the model. On a terminal a progress line stands on stderr meanwhile.
Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options);
Result<std::unique_ptr<Engine>> make_engine(const ModelOptions& options, const SpecOptions& spec,
                                            const CacheFlags& keep);
CacheOptions cache_options(const CacheFlags& keep);
ThinkingWish thinking_wish(const ThinkFlags& flags);
// Flags to what the engine takes. Error: invalid (flags of speculation that contradict each other).
Result<EngineOptions> engine_options(const ModelOptions& options, const SpecOptions& spec,
                                     const CacheFlags& keep);

// Flags over the model's recommendation.
SamplingParams sampling_params(const SamplingOptions& options, const Engine& engine, uint64_t default_seed);

// The conversation through the model's chat template, ready to be answered.
struct Prompt {
  std::vector<int> tokens;
  std::vector<RequestImage> images;  // as of Request
  OutputRules rules;                 // how to take the answer apart, when a chat template made the prompt
  std::vector<int> keep_at;          // as of Request
  ThinkingOptions thinking;          // as of Request
  ThinkReport think_report;
};
// Errors: unsupported (no chat template, or one that cannot be told to think as the flags say).
Result<void> check_chat_template(const Engine& engine, const ThinkFlags& thinking);
// stop: as of Request. Errors: also those of check_chat_template.
Result<Prompt> make_chat_prompt(const Engine& engine, const Json& messages, const ThinkFlags& thinking,
                                const std::vector<std::string>& stop = {});
Prompt make_raw_prompt(const Engine& engine, const std::string& text);
// The same for a text of any length. Errors: exhausted (longer than the context).
Result<Prompt> make_checked_raw_prompt(const Engine& engine, const std::string& text);

struct Answer {
  std::string text, reasoning;
  std::vector<ToolCall> calls;  // of the tools that were offered
  std::vector<int> tokens;
  std::vector<TokenLogprobs> logprobs;  // one per token, if asked for
  FinishReason finish = FinishReason::none;
  bool stop_found = false;  // a stop string ended it
  Usage usage;
  std::vector<std::string> states;  // as of Event
};

// Runs the prompt, and what it says of thinking, with the rest of `request` to its end, printing the answer
// to stdout as it comes (reasoning dimmed on a terminal) unless `silent`. Setting `interrupt` cancels it.
// progress: told how many tokens there are, if it is set.
Result<Answer> run_prompt(Engine& engine, Prompt prompt, Request request, bool silent,
                          const std::atomic<bool>& interrupt,
                          const std::function<void(int tokens)>& progress = nullptr);

// Set by Ctrl-C while it is caught. Otherwise Ctrl-C ends the process, as it does anyway.
std::atomic<bool>& interrupt_flag();
// From now on Ctrl-C is caught. Returns the flag.
std::atomic<bool>& catch_interrupts();

// While it lives, Ctrl-C is caught; none is lost when it ends.
class InterruptsCaught {
 public:
  InterruptsCaught();
  // A Ctrl-C that came after the last call of taken() is raised again.
  ~InterruptsCaught();
  // Whatever came so far has had its effect.
  void taken() { taken_ = interrupt_flag(); }

 private:
  struct sigaction before_ {};
  bool taken_ = false;
};

// "prompt 31 tokens (210 tok/s), answer 120 tokens (45 tok/s), first token after 0.15 s"
std::string describe(const Usage& usage);
double prefill_rate(const Usage& usage);  // tok/s
double decode_rate(const Usage& usage);   // tok/s, first token excluded

}  // namespace anabranch::cli
