// Shared by `generate` and `chat`: makes an engine from flags, and prints an answer as it comes.
#pragma once

#include <signal.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/json.h"
#include "chat/preparer.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "engine/loader.h"
#include "output/output_parser.h"

namespace anabranch::cli {

// Prints "error: ..." to stderr and returns exit code 1.
int fail(const Error& error);

// The model on the device that the options name, for commands that run it without an engine.
Result<LoadedModel> load_on_device(const EngineOptions& options);

// The directory of the prefix cache on disk: `wanted`, or the default; empty if there is none.
std::string state_directory(const std::string& wanted);

// Loads the model. On a terminal, stderr shows a progress line meanwhile.
Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options);
Result<std::unique_ptr<Engine>> make_engine(const EngineOptions& options, const SpecFlags& spec,
                                            const CacheFlags& keep);
CacheOptions cache_options(CacheOptions cache, const CacheFlags& keep);
// The engine's options with the other flags. Error: invalid (flags of speculation that contradict each
// other).
Result<EngineOptions> engine_options(EngineOptions engine, const SpecFlags& spec, const CacheFlags& keep);

struct Answer {
  std::string text, reasoning;
  std::vector<ToolCall> calls;  // calls of the tools that were offered
  std::vector<int> tokens;
  std::vector<TokenLogprobs> logprobs;  // one per token, if asked for
  FinishReason finish = FinishReason::none;
  bool stop_found = false;  // a stop string or a stop token ended it
  Usage usage;
  std::vector<std::string> states;  // see Event
};

// Runs the (only) prompt to its end, printing the answer to stdout as it comes (reasoning dimmed on a
// terminal) unless `silent`. Setting `interrupt` cancels it. progress: called with the number of tokens so
// far, if it is set.
Result<Answer> run_prompt(Engine& engine, const Prepared& prepared, bool silent,
                          const std::atomic<bool>& interrupt,
                          const std::function<void(int tokens)>& progress = nullptr);

// Ctrl-C sets this flag while it is caught. Otherwise Ctrl-C ends the process, as usual.
std::atomic<bool>& interrupt_flag();
// From now on Ctrl-C is caught, unless it is ignored, as in a background job of a script. Returns the flag.
std::atomic<bool>& catch_interrupts();

// Catches Ctrl-C as long as it lives, unless it is ignored. No Ctrl-C is lost when it is destroyed.
class InterruptsCaught {
 public:
  InterruptsCaught();
  // A Ctrl-C that came after the last call of taken() is raised again.
  ~InterruptsCaught();
  // Marks every Ctrl-C so far as handled.
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
