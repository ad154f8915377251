// The engine as the server and the command line see it: plain data in, events out. No arrays, no MLX.
//
// Ownership: an Engine owns one thread, and that thread owns the model, every sequence and all of MLX.
// submit() and cancel() may be called from any thread; sinks are called on the engine thread and must not
// block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sampling_params.h"
#include "cache/cache_stats.h"
#include "decode/logprobs.h"
#include "decode/loop_detector.h"
#include "decode/speculation.h"
#include "decode/think_control.h"
#include "grammar/grammar.h"
#include "jinja/chat_template.h"
#include "output/output_parser.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

// What opening a tool call means in a request.
enum class CallPolicy {
  text,     // nothing: it is text like any other
  offered,  // tools are offered: a call inside a thought ends it
  none      // a chat that offers none: the tokens that open a call are not taken
};

// How a request's thoughts are kept within bounds (decode/think_control.h). For models whose reasoning tags
// are tokens; for others only `loops` counts.
struct ThinkingOptions {
  // Tokens of thought at most; unset: kDefaultThinkingBudget. The context left is a limit, too.
  std::optional<int> budget;
  LoopRule loops = LoopRule::exact;  // which thoughts and answers that repeat themselves are ended
  CallPolicy calls = CallPolicy::text;
  std::string closing;       // what a thought that is cut ends with; empty: a short sentence
  std::string answer_start;  // what the answer then begins with: a fence
  std::string answer_fence;  // text within a thought that begins the answer, such as "```json"; empty: none
};

struct Request {
  std::vector<int> prompt;  // token ids, at least one
  SamplingParams sampling;
  int logprobs = -1;    // alternatives to tell beside each token, at most kMaxLogprobs; -1: none
  int max_tokens = -1;  // tokens of answer at most, thoughts not counted; -1 = up to the context; 0 = none
  std::vector<std::string> stop;  // generation ends when the answer's text contains one of these
  // How a OutputText takes the answer apart. Generation ends with the token at which that object says
  // stopped(): nobody has to cancel a request because of what it wrote.
  OutputRules output;
  bool ignore_eos = false;  // benchmarks only: max_tokens counts all, nothing ends a thought
  ThinkingOptions thinking;
  std::shared_ptr<const CompiledGrammar> grammar;  // that the answer follows (compile_grammar); null: none
  int begun = 0;  // the prompt's last so many tokens begin the answer: its grammar follows them, too
  std::optional<SpecMode> speculation;  // unset: as the engine was started
  int priority = 0;                     // lower ones go first; equal ones as they came

  bool cache = true;       // look for, and leave, states in the cache, if the engine has one
  std::string cache_salt;  // what is kept under another one is not found
  // Lengths of the prompt's beginnings that other prompts are likely to share (the end of tools and system
  // prompt, the end before the answer's opening), ascending: states are kept there.
  std::vector<int> keep_at;
};

enum class FinishReason { none, stop, length, cancelled, error };

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int completion_tokens = 0;  // every sampled token, a final end-of-turn token included
  int thinking_tokens = 0;    // of these, inside think blocks, tags included
  // Why a thought did not end by itself, or the answer was stopped (name_of(ThinkCut)); empty: nothing was
  // cut.
  std::string cut;
  double queue_s = 0;  // from submit to the first prefill step
  double prefill_s = 0;
  double ttft_s = 0;    // from submit to the first token
  double decode_s = 0;  // from the first token to the last
  SpecCounters speculation;
  int grammar_tokens = 0;  // that a grammar had a say in
  double grammar_s = 0;    // that it took, of decode_s and prefill_s
};

// Tokens in the order sampled. Exactly one event per accepted request has finish != none: its last.
struct Event {
  std::vector<int> tokens;
  std::vector<TokenLogprobs> logprobs;  // one per token, if the request asked for them
  FinishReason finish = FinishReason::none;
  std::string error;     // when finish == error
  Usage usage;           // whole in the last event
  bool started = false;  // the first event: the request begins to run, and usage tells of its prompt
};

using RequestId = uint64_t;
using Sink = std::function<void(const Event&)>;

// Where states of sequences are kept for later prompts (cache/state_cache.h).
struct CacheOptions {
  bool enabled = false;
  uint64_t ram_bytes = 0;     // 0: an eighth of the machine's memory, at most 8 GiB
  std::string directory;      // empty: nothing on disk
  uint64_t disk_bytes = 0;    // 0: a tenth of what is free there, at most 32 GiB
  KvForm kv = KvForm::exact;  // states of one form are never found by an engine of another
};

struct EngineOptions {
  std::string model_path;      // a directory, a .gguf or a .safetensors file
  int threads = 0;             // 0 = the default of base/thread_pool.h
  bool precise = false;        // fp32 activations and KV
  bool reference = false;      // run ops/reference instead of our kernels
  std::string device = "cpu";  // or "cuda", "metal"
  int context_length = 0;      // 0 = the model's own, bounded by memory
  int prefill_chunk = 0;       // tokens per prefill step; 0 = the device's own
  int max_running = 8;         // requests that run at a time, in one pass per step
  int max_queue = 64;          // requests waiting; more are refused
  // The gap between two tokens of a stream that prefill of other prompts may cause (engine/scheduler.h).
  double max_gap_s = 0.05;
  // Bytes that the states of running requests may take together; 0: half of the machine's memory, or what of
  // it is free. The context is bounded so that one request fits.
  uint64_t memory_bytes = 0;
  SpecMode speculation;    // what requests that say nothing get
  std::string draft_path;  // a draft model, or empty
  CacheOptions cache;
  bool keep_statistics = false;  // remember costs and acceptance of speculation between runs, in ~/.cache
  bool lossy_skip = false;  // leave the layers out that calibration found least needed: another, faster model
};

// What a user may want to know about what was loaded.
struct ModelInfo {
  std::string name;    // last part of the path
  std::string family;  // "qwen3_5", "llama", ...
  std::string path;
  int context_length = 0;
  int layers = 0;
  uint64_t parameters = 0;         // without the MTP head
  uint64_t weight_bytes = 0;       // resident, with the next two
  uint64_t mtp_bytes = 0;          // the MTP head
  uint64_t draft_head_bytes = 0;   // rows of the head, kept once more to draft with
  uint64_t draft_model_bytes = 0;  // all weights of the draft model, besides
  uint64_t bytes_per_token = 0;    // weights read by one decode step
  // Of one sequence, and what drafts add: keys and values by token, and what does not grow (recurrent states,
  // windows of tokens on trial).
  uint64_t kv_bytes_per_token = 0, draft_kv_bytes_per_token = 0;
  uint64_t state_bytes = 0, draft_state_bytes = 0;
  bool has_mtp = false;
  bool lossy = false;  // layers were left out: `layers` and what follows from it is of the others
  std::vector<DraftSource> draft_sources;  // that requests may ask for
  std::string draft_model;                 // its name, or empty
  double load_s = 0;
};

struct EngineStats {
  uint64_t requests = 0, finished = 0, cancelled = 0, failed = 0;
  uint64_t prompt_tokens = 0, completion_tokens = 0;
  int running = 0, queued = 0;
  uint64_t preempted = 0;     // times that a running request had to wait again for want of memory
  uint64_t logit_passes = 0;  // that brought logits to the host: for greedy tokens alone none has to
  // States of running requests, and what they may take now: less than at first while the machine is short of
  // memory.
  uint64_t state_bytes = 0, state_budget_bytes = 0;
  SpecCounters speculation;  // of ended requests
  GrammarStats grammars;
  std::optional<StateCacheStats> cache;
};

class Engine {
 public:
  // Loads the model on the engine's own thread and returns when it is ready.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  virtual ~Engine() = default;

  // Errors: invalid (empty prompt, id or parameter out of range, a draft source that the model does not
  // offer), exhausted (prompt longer than the context), busy (queue full, engine stopping).
  virtual Result<RequestId> submit(Request request, Sink sink) = 0;
  // For Request::grammar, from text as grammar/grammar.h has it: as GrammarCompiler::compile, with a client
  // that may leave, or for those that can wait.
  virtual void compile_grammar(std::string text, std::weak_ptr<const void> client,
                               GrammarDone done) const = 0;
  virtual Result<std::shared_ptr<const CompiledGrammar>> compile_grammar(const std::string& text) const = 0;
  // Whether such an answer may begin with these tokens. Errors: invalid.
  virtual Result<void> check_beginning(std::shared_ptr<const CompiledGrammar> grammar,
                                       std::span<const int> tokens) const = 0;
  // The request's last event follows within one step; unknown or finished ids are ignored.
  virtual void cancel(RequestId id) = 0;

  virtual const ModelInfo& info() const = 0;
  virtual EngineStats stats() const = 0;
  // Whether all that is asked of this process fails from now on.
  virtual bool device_lost() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  // Null when the model brings no chat template.
  virtual const ChatTemplate* chat_template() const = 0;
  // The model's own recommendation (generation_config.json), or greedy.
  virtual const SamplingParams& default_sampling() const = 0;
};

}  // namespace anabranch
