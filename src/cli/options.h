// The command line as plain values: flags set them (program.cc), and one file per sub-command acts on them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "mcp/agent.h"
#include "mcp/limits.h"

namespace anabranch::cli {

// --spec and --spec-depth, see parse_spec_mode().
struct SpecFlags {
  std::string source = "auto";
  int depth = 0;
};

inline constexpr double kUsualDiskWorth = 0.25;  // default of disk_worth_s: a delay that users notice

// Flags that cache_options() turns into CacheOptions.
struct CacheFlags {
  bool off = false;
  std::optional<double> disk_worth_s;  // unset: kUsualDiskWorth
};

inline const CacheFlags kNoCache{.off = true};

struct SessionFlags {
  std::string directory;              // "": the usual one
  std::optional<std::string> resume;  // for chat: the session to continue; "": the last one
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

// Adapters that `generate` and `chat` apply: paths, in this order.
using AdapterFlags = std::vector<std::string>;

struct ThinkFlags {
  std::string mode = "auto";      // "on", "off"
  std::optional<int> max_tokens;  // tokens of thinking
};

struct GenerateOptions {
  EngineOptions engine;
  bool yes = false;  // without a model: takes the first that is offered (choose_model.h)
  SamplingOptions sampling;
  SpecFlags spec;
  CacheFlags cache;
  AdapterFlags adapters;
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
  EngineOptions engine;
  bool yes = false;  // see GenerateOptions
  SamplingOptions sampling;
  SpecFlags spec;
  CacheFlags cache;
  AdapterFlags adapters;
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
  EngineOptions engine;
  std::vector<int> prefill = {512}, depths = {0}, rows;
  int decode = 128;
  int reps = 5;
  int chunk = 0;  // 0: the device's default
  // prompts: files of JSON lines, each answered with `decode` tokens by each kind of speculation, such as
  // "mtp" or "mtp:3".
  std::vector<std::string> prompts, kinds = {"off", "auto"};
  SamplingOptions sampling;
  bool profile = false;
  bool json = false;
};

struct EvalOptions {
  EngineOptions engine;
  std::string text;
  std::string against;  // a model to compare with; "": none
  int window = 1024;
  bool json = false;
  bool each = false;  // print every token's log-probability
};

struct CalibrateOptions {
  EngineOptions engine;
  std::string text;    // a file; "": the model's own answers
  std::string output;  // "": beside the model
  bool json = false;
};

struct DoctorOptions {
  std::string model;
  std::string device = "cpu";  // see DeviceOptions
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
  std::string directory;  // see CacheOptions
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
  std::string device = "cpu";  // see DeviceOptions
  bool json = false;
};

struct RemoveOptions {
  std::string model;  // a name
  bool yes = false;   // without asking
};

struct VerifyOptions {
  EngineOptions engine;
  std::string report;  // file to write; "": anabranch-verify-<model name>.md in the working directory
};

// Checks that the other files exist, before the model is located, which may start a download.
Result<void> check_adapters(const AdapterFlags& paths);
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
