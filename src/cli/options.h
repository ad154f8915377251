// The command line as plain values: main.cc fills them in, and one file per sub-command acts on them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "mcp/agent.h"
#include "mcp/limits.h"

namespace anabranch::cli {

struct ModelOptions {
  std::string model;
  int threads = 0;
  int context = 0;
  std::string chat_template;  // a file; "": the model's own
  int prefill_chunk = 0;      // tokens of a prompt in one pass; 0: the device's default
  bool precise = false;
  bool overcommit = false;  // load weights that are larger than the free memory
  bool reference = false;
  std::string device = "cpu";  // or "cuda", "metal"
  uint64_t expert_bytes = 0;   // part of the device's memory for experts; 0: the free memory
  std::vector<int> devices;    // devices that share the model; empty: the first one holds all of it
  std::string pooling;         // "cls", "last", "mean" or "rank"; "": as the model's files say
};

struct SpecOptions {
  std::string source = "auto";  // "auto", "off" or a draft source
  int depth = 0;                // draft tokens per round; 0: chosen
  std::string draft;            // a draft model's path
  bool lossy_skip = false;
};

inline constexpr double kUsualDiskWorth = 0.25;  // default of disk_worth_s: a delay that users notice

struct CacheFlags {
  bool off = false;
  std::string directory;               // "": anabranch/states in the user's cache directory
  uint64_t ram_bytes = 0;              // 0: chosen
  std::optional<uint64_t> disk_bytes;  // unset: chosen; 0: nothing on disk
  std::optional<double> disk_worth_s;  // CacheOptions::disk_worth_s; unset: kUsualDiskWorth
  std::string kv = "exact";            // or "q8"
};

inline const CacheFlags kNoCache{.off = true};

// Cached states that workers share with each other.
struct PeerFlags {
  bool share = false;              // let others fetch this worker's states
  std::vector<std::string> peers;  // addresses of workers that may be asked
  double timeout_s = 2;
  std::string key_file;  // with the API key for them; "": ANABRANCH_API_KEY
};

struct SessionFlags {
  std::string directory;              // "": the usual one
  std::optional<std::string> resume;  // for chat: the session to continue; "": the last one
  double days = 0;                    // see Retention
  uint64_t bytes = 0;
};

struct SamplingOptions {
  std::optional<float> temperature, top_p, min_p;
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int> top_k;
  std::map<std::string, std::optional<double>>
      others;                                      // by the name of a field (server/api/sampler_fields.h)
  std::vector<std::string> dry_sequence_breakers;  // empty: the usual ones
  std::optional<uint64_t> seed;
  int max_tokens = 1024, min_tokens = 0;
  std::vector<std::string> stop;
};

struct ThinkFlags {
  std::string mode = "auto";      // "on", "off"
  std::optional<int> max_tokens;  // tokens of thinking
};

struct GenerateOptions {
  ModelOptions model;
  SamplingOptions sampling;
  SpecOptions spec;
  CacheFlags cache;
  ThinkFlags thinking;
  std::string prompt, prompt_file, system;
  std::vector<std::string> images;  // files
  bool raw = false, json = false;
  bool ignore_eos = false;
  std::string json_schema;  // a file or the schema itself; "": none
  std::string grammar;      // a file
  int logprobs = -1;        // alternatives beside each token; -1: no log probabilities
};

// MCP servers, for an agent loop.
struct McpFlags {
  std::string config;              // a file (mcp/config.h); "": none
  std::vector<std::string> allow;  // "SERVER" or "SERVER.TOOL": called without asking
  std::string log;                 // a file of JSON lines; "": none
  mcp::AgentLimits limits;
  mcp::Limits server_limits;
};

struct ChatOptions {
  ModelOptions model;
  SamplingOptions sampling;
  SpecOptions spec;
  CacheFlags cache;
  ThinkFlags thinking;
  SessionFlags sessions;
  bool keep = false;        // the conversation is kept
  bool no_history = false;  // input is not stored for the next run
  std::string system;
  std::vector<std::string> images;  // files, for the first message
  McpFlags mcp;
  std::string url;           // of a server that answers; "": a model in this process does
  std::string api_key_file;  // of that server
};

struct ConvertOptions {
  std::string source, output, recipe, dtype = "bf16", format = "mlx";
  std::string calibration, perplexity;  // text files; "": none
  std::string mtp_from;                 // add this checkpoint's prediction head to `source`; "": convert
  std::optional<int> bits, group;       // unset: the recipe's default, or 4 and 64
  uint64_t shard_mb = 48;
  bool force = false;
};

struct BenchOptions {
  ModelOptions model;
  std::vector<int> prefill = {512}, depths = {0}, rows;
  int decode = 128;
  int reps = 5;
  int chunk = 0;  // 0: the device's default
  // prompts: files of JSON lines, each answered with `decode` tokens by each kind of speculation, such as
  // "mtp" or "mtp:3".
  std::vector<std::string> prompts, kinds = {"off", "auto"};
  std::string draft;
  SamplingOptions sampling;
  bool profile = false;
  bool json = false;
};

struct EvalOptions {
  ModelOptions model;
  std::string text;
  std::string against;  // a model to compare with; "": none
  int window = 1024;
  bool json = false;
  bool each = false;  // print every token's log-probability
};

struct CalibrateOptions {
  ModelOptions model;
  std::string text;    // a file; "": the model's own answers
  std::string output;  // "": beside the model
  bool json = false;
};

struct ServeOptions {
  ModelOptions model;  // "": models are loaded when requests name them
  SpecOptions spec;
  CacheFlags cache;
  std::string kv_events;  // an endpoint that publishes events about the model's cached states; "": none
  PeerFlags states;
  SessionFlags sessions;
  McpFlags mcp;              // `allow` is not used: requests say what needs approval
  ThinkFlags thinking;       // where requests say nothing
  SamplingOptions sampling;  // where requests say nothing
  std::string host = "127.0.0.1";
  int port = 11436;
  int parallel = 0,
      queue = 64;             // running requests (0: the device's default), waiting requests
  double max_gap_ms = 50;     // between a stream's tokens, while prompts are read beside it
  uint64_t memory_bytes = 0;  // for the KV cache of requests; 0: chosen
  int connections = 256, connections_per_address = 64;
  int requests_per_minute = 0;  // limit for one client address; 0: no limit
  std::vector<std::string> trusted_proxies;
  uint64_t max_body_bytes = 32u << 20;
  double request_timeout_s = 0;  // 0: no limit
  std::string access_log;
  uint64_t access_log_bytes = 64u << 20;
  std::vector<std::string> allowed_hosts, cors_origins;
  std::vector<std::string> image_hosts;  // hosts from which images that requests name may be fetched
  std::vector<std::string> api_keys;
  std::string api_key_file;
  std::string cache_scope;               // "key" or "all"; "": chosen
  std::string tls_certificate, tls_key;  // files; both or none
  double drain_seconds = 30;
  std::vector<std::string> volatile_drop, volatile_move;  // patterns of text in system prompts
  bool keep_volatile = false;                             // known volatile text is not dropped
  std::string model_name;                                 // in the API; "": the model's own
  bool strict_model_names = false;                        // refuse requests for models that are not here
  uint64_t model_bytes = 0;              // limit for the weights of all loaded models together; 0: chosen
  std::optional<double> unload_after_s;  // time without a request; unset: chosen; 0: never
  bool mlock = false;                    // lock loaded models into memory
  bool lean = false;                     // leave most of the machine to other programs
  bool pin = false;                      // the model is never unloaded for another one
  std::vector<std::string> configured;   // names of [model.NAME]
  // The options for another model, with its path: the command line without the flags of its own model, plus
  // the settings of [model.NAME].
  std::function<Result<ServeOptions>(const std::string& name)> for_model;
  std::string log_format = "text";  // or "json"
  std::string log_file;             // "": stderr, or with `detach` the usual one (pid_file.h)
  bool detach = false;              // run in the background
  std::string pid_file;             // "": none, or with `detach` the usual one
};

struct StopOptions {
  int port = ServeOptions{}.port;
  std::string pid_file;  // "": the usual one of the port
};

struct StatusOptions {
  int port = ServeOptions{}.port;
  std::string pid_file;  // see StopOptions
  std::string api_key_file;
  bool json = false;
};

struct DoctorOptions {
  std::string model;
  std::string device = "cpu";  // see ModelOptions
  bool tune = false;           // measure what suits the model, and keep it
  double tune_seconds = 30;
  bool json = false;
};

struct ConfigOptions {
  std::string model;
  bool json = false;
};

struct StatesOptions {
  enum class Action { list, stats, verify, clear };
  Action action = Action::list;
  std::string directory;  // see CacheFlags
  bool json = false;
  bool all = false;         // list: without a limit
  bool remove_bad = false;  // verify
  bool yes = false;         // clear: without asking
  std::string fingerprint;  // clear: only fingerprints that begin like this
  std::optional<double> older_than_days;
};

struct SessionsOptions {
  enum class Action { list, show, export_text, import, remove, rename };
  Action action = Action::list;
  std::string directory;  // "": the usual one
  std::string session;    // an id, its beginning, or a part of a title; "": the last one
  std::string text;       // list: words to search for; rename: the title
  std::string file;       // to write or read; "": standard output
  std::string format = "jsonl";
  int limit = 50;
  bool all = false;  // list: also those of stored responses
  bool yes = false;  // remove: without asking
  bool json = false;
};

struct PullOptions {
  std::string name, revision;
  bool anyway = false;  // even if it cannot run here
};

struct ListOptions {
  bool json = false;
  bool names = false;  // print only the names
};

struct ShowOptions {
  std::string model;           // a path or a name
  std::string device = "cpu";  // see ModelOptions
  bool json = false;
};

struct RemoveOptions {
  std::string model;  // a name
  bool yes = false;   // without asking
};

struct VerifyOptions {
  ModelOptions model;
  std::string draft;   // a draft model's path
  std::string report;  // file to write; "": anabranch-verify-<model name>.md in the working directory
};

// Checks that the other files exist, before the model is located, which may start a download.
Result<void> check_generate(const GenerateOptions& options);
Result<void> check_convert(const ConvertOptions& options);

// Exit codes: 0 done, 1 failed, 130 interrupted.
int run_generate(const GenerateOptions& options);
int run_chat(const ChatOptions& options);
int run_mcp(const ChatOptions& options);
int run_convert(const ConvertOptions& options);
int run_bench(const BenchOptions& options);
int run_speculation_bench(const BenchOptions& options);
int run_eval(const EvalOptions& options);
int run_calibrate(const CalibrateOptions& options);
// Exit codes as above, and 75: the device was lost.
int run_serve(const ServeOptions& options);
int run_stop(const StopOptions& options);
// Exit codes: 0 a server runs, 3 none does.
int run_status(const StatusOptions& options);
int run_cache(const StatesOptions& options);
int run_sessions(const SessionsOptions& options);
int run_pull(const PullOptions& options);
int run_ls(const ListOptions& options);
int run_show(const ShowOptions& options);
int run_rm(const RemoveOptions& options);
int run_doctor(const DoctorOptions& options);
// settings_file: --config
int run_config(const ConfigOptions& options, const std::string& settings_file);
int run_verify(const VerifyOptions& options);

}  // namespace anabranch::cli
