// The engine as the server and the command line see it: plain data in, events out. No tensors.
//
// Ownership: an Engine owns one thread, and that thread owns the device, the model and every sequence.
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

#include "base/image_ids.h"
#include "base/result.h"
#include "base/sampling_params.h"
#include "cache/cache_stats.h"
#include "decode/logprobs.h"
#include "decode/loop_detector.h"
#include "decode/speculation.h"
#include "decode/think_control.h"
#include "engine/adapter.h"
#include "grammar/grammar.h"
#include "images/processor.h"
#include "jinja/chat_template.h"
#include "ops/device_options.h"
#include "output/output_parser.h"
#include "peers/peer_options.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

// How a request treats the opening of a tool call.
enum class CallPolicy {
  text,     // nothing special: the call is plain text
  offered,  // tools are offered: a call inside a thought ends the thought
  none      // a chat without tools: the tokens that open a call are never sampled
};

// Which tokens Request::max_tokens limits.
enum class TokenBound : uint8_t {
  answer,  // those of the answer; thoughts have only their own budget
  all,     // all
  shared   // all, and thoughts end in time for the answer: a quarter of them, rounded up, are its own
};

// Limits on a request's thoughts (decode/think_control.h). Applies to models whose reasoning tags are tokens;
// other models use only `loops`.
struct ThinkingOptions {
  // The most thinking tokens; unset: kDefaultThinkingBudget. The remaining context limits it, too.
  std::optional<int> budget;
  LoopRule loops = LoopRule::exact;  // which kinds of repetition end a thought or an answer
  CallPolicy calls = CallPolicy::text;
  std::string closing;       // appended to a thought that is cut; empty: a short default sentence
  std::string answer_start;  // the first text of the answer after a cut thought, such as a code fence
  std::string answer_fence;  // text inside a thought that begins the answer, such as "```json"; empty: none
};

// How the final hidden states of a text become its embedding: the state of its first or last token, or their
// mean. rank: the logits of Request::classes after its last token.
enum class Pooling : uint8_t { first, last, mean, rank };

class SharedStates;

// The worker that did a request's prefill.
struct StateOrigin {
  std::string host;               // "host:port"; empty: unknown
  std::vector<std::string> keys;  // prompt_key() of the prompts that it has read; empty: unknown
};

// An image of a prompt. Positions [begin, begin + image->tokens) hold the image_id()s of its key, in order.
struct RequestImage {
  int begin = 0;
  ImageKey key;  // image_key() of `image`
  std::shared_ptr<const ProcessedImage> image;
};

struct Request {
  std::vector<int> prompt;           // token ids, at least one
  std::vector<RequestImage> images;  // ascending
  SamplingParams sampling;
  int logprobs =
      -1;  // alternatives to report with each token, at most kMaxLogprobs; -1: no log probabilities
  int max_tokens = -1;  // the most tokens, of those that `bound` says; -1: up to the context; 0: none
  TokenBound bound = TokenBound::answer;
  std::vector<std::string> stop;  // generation ends when the answer's text contains one of these
  // How an OutputText parses the answer. Generation ends at the token for which OutputText::stopped() becomes
  // true, so callers never have to cancel a request because of its text; and at any of output.stop_tokens,
  // also within a thought. Until the answer has output.min_tokens tokens, no token that would end it is
  // sampled, unless no other token may come next. All tokens count with ignore_eos or TokenBound::all.
  OutputRules output;
  bool ignore_eos = false;  // for benchmarks: max_tokens counts all tokens, and nothing ends a thought
  ThinkingOptions thinking;
  std::shared_ptr<const CompiledGrammar> grammar;  // constrains the answer (compile_grammar); null: none
  int begun = 0;  // number of tokens at the prompt's end that already belong to the answer and its grammar
  std::optional<SpecMode> speculation;  // unset: the engine's default
  // Set: the request asks for the embedding of its prompt, not for an answer. All other options except
  // priority are ignored.
  std::optional<Pooling> pooling;
  std::vector<int> classes;  // token ids (Pooling::rank)
  // Applied in this order, at most kMaxAdapters. Their digests and scales must be part of cache_salt (see
  // adapter_salt()), because cached states depend on them.
  std::vector<AppliedAdapter> adapters;
  // Also reports the log probabilities of the prompt's tokens, with `logprobs` alternatives each (0 if it is
  // negative). Such a request neither reads nor writes cached states.
  bool prompt_logprobs = false;
  bool progress = false;  // an event reports each part of the prompt that has been read
  int priority = 0;       // lower values run first; equal values in order of arrival
  // Work for later that no client waits for: takes no place of the queue, counts as no request in the
  // statistics, and reads in small steps, so that a request that comes meanwhile waits for little.
  bool background = false;

  bool cache = true;         // read and write the prefix cache, if the engine has one
  std::string cache_salt;    // states cached under another salt are not found
  StateOrigin state_from;    // with peers: the only peer to ask, if it is a configured one
  bool name_states = false;  // the last event names the cached states that the request used or stored
  // Lengths of prefixes that other prompts are likely to share (the end of the tools and the system prompt,
  // the end before the answer's opening), ascending. States are cached at these lengths.
  std::vector<int> keep_at;
};

inline constexpr int kLeastKept = 32;  // tokens: no state is cached for a shorter prefix

enum class FinishReason { none, stop, length, cancelled, error };

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int completion_tokens = 0;  // every sampled token, including a final end-of-turn token
  int thinking_tokens = 0;    // tokens inside think blocks, including the tags
  // Why a thought or the answer was cut (name_of(ThinkCut)); empty: nothing was cut.
  std::string cut;
  double queue_s = 0;  // from submit() to the first prefill step
  double prefill_s = 0;
  double ttft_s = 0;    // from submit() to the first token
  double decode_s = 0;  // from the first token to the last
  SpecCounters speculation;
  int grammar_tokens = 0;  // tokens that were sampled under a grammar
  double grammar_s = 0;    // time spent in the grammar, part of decode_s and prefill_s
};

// New tokens, in the order sampled. For each accepted request exactly one event has finish != none: its last.
struct Event {
  std::vector<int> tokens;
  std::vector<TokenLogprobs> logprobs;  // one per token, if the request asked for them
  FinishReason finish = FinishReason::none;
  std::string error;             // when finish == error
  Usage usage;                   // complete in the last event
  bool started = false;          // the first event: the request begins to run; usage describes its prompt
  std::vector<float> embedding;  // in the last event of a request with pooling: [hidden], not normalised, or
                                 // [classes]
  // Request::prompt_logprobs: one entry for each prompt token from the second on, in the first event that has
  // tokens, or in the last event.
  std::vector<TokenLogprobs> prompt_logprobs;
  int prefilled = 0;                // > 0: number of prompt tokens that are in the state (Request::progress)
  std::vector<std::string> states;  // Request::name_states: full_name() of their records
};

using RequestId = uint64_t;
using Sink = std::function<void(const Event&)>;

// The cache of sequence states for later prompts (cache/state_cache.h).
struct CacheOptions {
  bool enabled = false;
  uint64_t ram_bytes = 0;  // 0: an eighth of the machine's memory, at most 8 GiB
  std::string directory;   // empty: no disk tier
  std::optional<uint64_t>
      disk_bytes;                 // unset: a tenth of the free space there, at most 32 GiB; 0: no disk tier
  double disk_worth_s = 0;        // StateCacheOptions::disk_worth_s
  KvFormat kv = KvFormat::exact;  // an engine finds only states that were cached in its own KV format
  std::string events;             // a ZeroMQ endpoint for cache events (cache/kv_events.h); empty: none
};

struct EngineOptions {
  std::string model_path;          // a directory, a .gguf or a .safetensors file
  std::string model_name;          // ModelInfo::name; empty: the last part of the path
  std::optional<Pooling> pooling;  // for embeddings, overrides what the model's files say
  std::string chat_template_path;  // a file with a template instead of the model's own; empty: none
  ops::DeviceOptions device;
  int context_length = 0;  // 0: the model's own, bounded by memory
  int prefill_chunk = 0;   // tokens per prefill step; 0: the device's default
  int max_running = 0;  // requests that run at the same time, in one pass per step; 0: the device's default
  int max_queue = 64;   // requests that may wait; more are refused
  // The longest gap between two tokens of a stream while other prompts are in prefill (engine/scheduler.h).
  double max_gap_ms = 50;
  // Memory for the states of all running requests; 0: half of the machine's memory, or the free memory if
  // that is less. The context is bounded so that one request fits.
  uint64_t memory_bytes = 0;
  SpecMode speculation;    // for requests that do not choose one
  std::string draft_path;  // a draft model, or empty
  CacheOptions cache;
  PeerOptions peers;        // ignored without a cache
  bool overcommit = false;  // load weights that are larger than the free memory
  // Called on the engine's thread after each layer of the model that was loaded; may be empty.
  std::function<void(int done, int total)> loading;
  bool keep_statistics = false;  // keep costs and acceptance rates of speculation between runs, in ~/.cache
  bool lossy_skip =
      false;  // leave out the layers that calibration found least needed: a different, faster model
};

// How a model's prompts represent images.
struct ImageFormat {
  ImageProcessor processor;
  std::string written;    // what the chat template writes for an image
  std::string in_prompt;  // what replaces it in prompts; contains the pad token once
  int pad = -1;           // the token that an image's positions replace
};

// A description of the loaded model for users.
struct ModelInfo {
  std::string name;    // last part of the path
  std::string family;  // "qwen3_5", "llama", ...
  std::string path;
  int context_length = 0;
  int layers = 0;
  int max_running = 0;             // requests that run at the same time
  uint64_t parameters = 0;         // without the MTP head
  uint64_t weight_bytes = 0;       // resident, including the next two
  uint64_t mtp_bytes = 0;          // the MTP head
  uint64_t draft_head_bytes = 0;   // the copy of some of the head's rows that drafts use
  uint64_t draft_model_bytes = 0;  // all weights of the draft model, not part of weight_bytes
  uint64_t bytes_per_token = 0;    // weights read by one decode step
  // Memory of one sequence, and what drafts add to it: keys and values per token, and the fixed part
  // (recurrent states, windows of draft tokens).
  uint64_t kv_bytes_per_token = 0, draft_kv_bytes_per_token = 0;
  uint64_t state_bytes = 0, draft_state_bytes = 0;
  bool has_mtp = false;
  bool images = false;       // whether prompts may contain images
  uint64_t image_bytes = 0;  // memory that encoding the largest image takes
  bool lossy = false;        // layers were left out: `layers` and all sizes count the remaining ones
  std::vector<DraftSource> draft_sources;  // those that requests may choose
  std::string draft_model;                 // name of the draft model, or empty
  int hidden = 0;                          // length of hidden states
  std::optional<Pooling> pooling;  // from the model's files; none: the model is not made for embeddings
  std::vector<int> embedding_end;  // tokens that end each text to embed, from the model's files
  double load_s = 0;
};

struct EngineStats {
  uint64_t requests = 0, finished = 0, cancelled = 0, failed = 0;
  uint64_t prompt_tokens = 0, completion_tokens = 0;
  int running = 0, queued = 0;
  uint64_t preempted = 0;                 // how often a running request was preempted because memory ran out
  double prefill_s = 0, decode_s = 0;     // see Usage; sums over ended requests
  double busy_s = 0;                      // time in which the device worked on steps
  uint64_t steps = 0, step_requests = 0;  // passes of the model, and the sum of the requests in each pass
  uint64_t longest = 0;                   // tokens of the longest request so far, prompt and answer
  uint64_t logit_passes = 0;  // passes that copied logits to the host; greedy sampling does not need that
  // Memory of running requests, and its current limit, which is lower while the machine is short of memory.
  uint64_t state_bytes = 0, state_budget_bytes = 0;
  SpecCounters speculation;  // of ended requests
  GrammarStats grammars;
  std::optional<StateCacheStats> cache;
};

// Current memory use of a device.
struct DeviceMemory {
  std::string device;  // its name, for people
  uint64_t total_bytes = 0, free_bytes = 0;
};

class Engine {
 public:
  // Loads the model on the engine's own thread and returns when it is ready.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options);
  virtual ~Engine() = default;

  // Errors: invalid (empty prompt, token id or parameter out of range, a draft source that the model does not
  // have), exhausted (prompt longer than the context), busy (queue full, engine stopping).
  virtual Result<RequestId> submit(Request request, Sink sink) = 0;
  // Compiles a grammar for Request::grammar from text (syntax: grammar/grammar.h). The first overload answers
  // through `done`, unless the client has gone by then; the second waits. See GrammarCompiler::compile.
  virtual void compile_grammar(std::string text, const GrammarClient& client, GrammarDone done) const = 0;
  virtual Result<std::shared_ptr<const CompiledGrammar>> compile_grammar(const std::string& text) const = 0;
  // Checks that an answer with this grammar may begin with these tokens. Errors: invalid.
  virtual Result<void> check_beginning(std::shared_ptr<const CompiledGrammar> grammar,
                                       std::span<const int> tokens) const = 0;
  // Loads a LoRA adapter for requests, and waits until the engine's thread has it on the device. Errors:
  // those of read_adapter(), invalid (a module that the model does not have, or of another shape),
  // unsupported (a module that adapters cannot change, or a model on several devices).
  virtual Result<std::shared_ptr<const LoadedAdapter>> load_adapter(const std::string& path) = 0;
  // The request gets its last event within one step. Unknown and finished ids are ignored.
  virtual void cancel(RequestId id) = 0;

  virtual const ModelInfo& info() const = 0;
  virtual EngineStats stats() const = 0;
  // Device::expert_rows() of the model, then of the draft model. Waits for the device's work.
  virtual std::vector<std::vector<uint64_t>> expert_rows() const = 0;
  // Memory of the model's device; none if the device shares the machine's memory, or has failed.
  virtual std::optional<DeviceMemory> device_memory() const = 0;
  // True once the GPU has failed for good; every later request fails.
  virtual bool device_lost() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  // The cached states, for other workers. Valid as long as the engine. Null: there is no cache.
  virtual SharedStates* shared_states() const { return nullptr; }
  // Null when the model has no chat template.
  virtual const ChatTemplate* chat_template() const = 0;
  // Null when the model reads no images.
  virtual const ImageFormat* image_format() const { return nullptr; }
  // The sampling parameters that the model's files recommend; defaults: temperature 0.8, top_p 0.95, min_p
  // 0.05.
  virtual const SamplingParams& default_sampling() const = 0;
};

}  // namespace anabranch
