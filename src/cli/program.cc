#include "cli/program.h"

#include "checkpoint/write_format.h"

#include "cli/completions.h"
#include "cli/conversation.h"
#include "cli/flag_groups.h"
#include "cli/flags.h"
#include "cli/mcp_flags.h"
#include "cli/model_commands.h"
#include "cli/print.h"
#include "cli/service_commands.h"
#include "cli/session_flags.h"

namespace anabranch::cli {
namespace {

void add_service_flags(CLI::App& app, ServeOptions& o) {
  const Group group(app, "Service");
  app.add_option("--log-format", o.log_format,
                 "Lines of the log: text, or json, an object each (docs/service.md)")
      ->check(CLI::IsMember({"text", "json"}));
  app.add_option("--log-file", o.log_file,
                 "Append the log to this file instead of stderr; SIGHUP opens it again");
  app.add_flag("--detach", o.detach,
               "Return when the server listens, and leave it running in the background (see stop, status)");
  app.add_option("--pid-file", o.pid_file,
                 "File with the server's process id (default: none; with --detach "
                 "~/.local/state/anabranch/serve-PORT.pid, and the log beside it)");
  app.add_option("--access-log", o.access_log,
                 "Append a line about each request to this file: who, what, how many tokens, how long; never "
                 "text (docs/service.md)");
  app.add_option("--access-log-size", o.access_log_bytes,
                 "Begin it anew at this size; five old ones are kept (default: 64MB)")
      ->transform(size_flag())
      ->check(number_in(4096.0, 1e15));
}

void add_limit_flags(CLI::App& app, ServeOptions& o) {
  const Group group(app, "Limits");
  app.add_option("--request-timeout", o.request_timeout_s,
                 "Seconds that a request may take, from its arrival to the end of its answer (default: no "
                 "limit)")
      ->check(number_in(0.001, 86400.0));
  app.add_option("--max-body", o.max_body_bytes, "Size of a request's body (default: 32MB)")
      ->transform(size_flag())
      ->check(number_in(1024.0, 1e9));
  app.add_option("--requests-per-minute", o.requests_per_minute,
                 "Requests for answers of one client address, loopback addresses aside (default: no limit)")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--max-connections", o.connections,
                 "Connections at a time; beyond them idle ones are closed, then new ones refused (default: "
                 "256, or 64 more than --parallel and --queue together)")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--max-connections-per-address", o.connections_per_address,
                 "How many of them one client address may have, loopback addresses and trusted proxies aside "
                 "(default: 64)")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option(
         "--trusted-proxy", o.trusted_proxies,
         "Address or network, such as 10.0.0.0/8, of a proxy whose X-Forwarded-For tells the client's "
         "address (may be given several times)")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

void add_image_flag(CLI::App& app, std::vector<std::string>& files, const std::string& what) {
  app.add_option("--image", files, what + " (may be given several times)")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
}

CLI::App* add_generate(CLI::App& app, GenerateOptions& o) {
  auto* command = app.add_subcommand("generate", "Answer one prompt");
  add_model_flags(*command, o.model);
  add_context_flag(*command, o.model);
  add_sampling_flags(*command, o.sampling);
  add_spec_flags(*command, o.spec);
  add_cache_flags(*command, o.cache);
  add_thinking_flags(*command, o.thinking);
  command->add_option("-p,--prompt,prompt", o.prompt, "The prompt (default: standard input)");
  command->add_option("-f,--prompt-file", o.prompt_file, "Read the prompt from a file");
  add_image_flag(*command, o.images, "Put an image before the prompt: a PNG, JPEG or WebP file");
  command->add_option("-s,--system", o.system, "System message");
  command->add_flag("--raw", o.raw, "Continue the text as it is, without a chat template");
  auto* schema = command->add_option("--json-schema", o.json_schema,
                                     "The answer satisfies this JSON schema (a file, or itself)");
  command->add_option("--grammar", o.grammar, "The answer follows this grammar (EBNF: a file, or itself)")
      ->excludes(schema);
  command->add_flag("--ignore-eos", o.ignore_eos, "Go on past the end of the turn (for measuring)");
  auto* json =
      command->add_flag("--json", o.json, "End with one JSON object: text, token ids, counts, speeds");
  command
      ->add_option("--logprobs", o.logprobs,
                   "With --json: each token's log probability, and that of so many alternatives")
      ->needs(json)
      ->check(CLI::Range(0, kMaxLogprobs));
  return command;
}

// Adds --url and flags for it. With --url a server answers, so flags for loading a model here are excluded.
void add_url_flags(CLI::App& command, ChatOptions& o) {
  const Group group(command, "Server");
  auto* url = command.add_option("--url", o.url,
                                 "Talk to this running server (http://HOST:PORT) instead of loading a model; "
                                 "--model then names one of its models");
  command
      .add_option("--api-key-file", o.api_key_file,
                  "File whose first key is shown to the server (or ANABRANCH_API_KEY in the environment)")
      ->needs(url);
  for (const char* flag :
       {"--threads", "--precise", "--reference", "--device", "--expert-memory", "--chat-template-file",
        "--prefill-chunk", "--context", "--spec", "--spec-depth", "--draft", "--lossy-skip", "--no-cache",
        "--cache-dir", "--cache-ram", "--cache-disk", "--cache-kv"})
    url->excludes(command.get_option(flag));
  command.get_option("--model")->required(false);
  command.callback([&o] {
    if (o.url.empty() && o.model.model.empty()) throw CLI::RequiredError("--model (or --url)");
  });
}

// Flags that `chat` and `mcp` share.
void add_partner_flags(CLI::App& command, ChatOptions& o) {
  add_model_flags(command, o.model);
  add_context_flag(command, o.model);
  add_sampling_flags(command, o.sampling);
  add_spec_flags(command, o.spec);
  add_cache_flags(command, o.cache);
  o.sampling.max_tokens = -1;
  add_thinking_flags(command, o.thinking);
  add_url_flags(command, o);
}

CLI::App* add_chat(CLI::App& app, ChatOptions& o) {
  auto* command = app.add_subcommand("chat", "Talk in the terminal");
  add_partner_flags(*command, o);
  command->add_option("-s,--system", o.system, "System message");
  add_image_flag(*command, o.images, "Put an image before the first message: a PNG, JPEG or WebP file");
  add_chat_session_flags(*command, o);
  command->add_flag("--no-history", o.no_history,
                    "Do not keep what you enter for the arrow keys of the next run "
                    "(~/.local/state/anabranch/chat_history)");
  add_mcp_flags(*command, o.mcp);
  add_mcp_allow_flag(*command, o.mcp);
  return command;
}

CLI::App* add_mcp(CLI::App& app, ChatOptions& o) {
  auto* command = app.add_subcommand("mcp", "Offer the model to other programs, as an MCP server on stdio");
  add_partner_flags(*command, o);
  command->add_option("-s,--system", o.system, "System message where a call brings none");
  add_mcp_session_flag(*command, o);
  return command;
}

CLI::App* add_serve(CLI::App& app, ServeOptions& o) {
  auto* command = app.add_subcommand("serve", "Serve the OpenAI API");
  add_model_flags(*command, o.model);
  command->get_option("--model")->required(false);  // requests can also name models
  add_context_flag(*command, o.model);
  add_sampler_flags(*command, o.sampling);
  add_spec_flags(*command, o.spec);
  add_cache_flags(*command, o.cache);
  command
      ->add_option(
          "--kv-events", o.kv_events,
          "Tell routers over ZeroMQ which prompts of the model have kept states: an endpoint to listen on, "
          "such as tcp://127.0.0.1:5557")
      ->group("Cache")
      ->excludes("--no-cache");
  add_peer_flags(*command, o.states);
  add_thinking_flags(*command, o.thinking);
  command->add_option("--host", o.host, "Address to listen on");
  command->add_option("-p,--port", o.port, "Port to listen on; 0 = any free one")
      ->check(CLI::Range(0, 65535));
  command
      ->add_option("--parallel", o.parallel,
                   "Requests that run at a time; others wait (default: 8; with --device cuda 256, as "
                   "far as memory allows)")
      ->check(CLI::Range(1, 1024));
  command->add_option("--queue", o.queue, "Requests that wait at most; more are refused (default: 64)")
      ->check(CLI::Range(0, 1 << 16));
  command
      ->add_option("--max-gap", o.max_gap_ms,
                   "Milliseconds between two tokens of a stream that reading other prompts may cause "
                   "(default: 50; the bound is never below 2.2 times a step without prompts)")
      ->check(CLI::Range(0.0, 60000.0));
  command
      ->add_option(
          "--memory", o.memory_bytes,
          "Memory for the states of running requests, such as 4GB (default: half of the machine's, or "
          "what of it is free)")
      ->transform(size_flag());
  command
      ->add_option("--allow-host", o.allowed_hosts,
                   "A further name that requests may have in Host (may be given several times)")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command
      ->add_option("--allow-image-urls", o.image_hosts,
                   "Hosts, separated by commas, from which images are fetched that requests name by a web "
                   "address (default: none)")
      ->expected(1)
      ->allow_extra_args(false)
      ->delimiter(',')
      ->take_all();
  command
      ->add_option("--cors-origin", o.cors_origins,
                   "An origin whose web pages may use the server, such as http://localhost:3000; * for all "
                   "(may be given several times)")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command
      ->add_option(
          "--api-key", o.api_keys,
          "A key that requests must show (may be given several times; others on this machine can read "
          "it in the list of processes: prefer the next two)")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command
      ->add_option("--api-key-file", o.api_key_file,
                   "File with such keys, one a line; ANABRANCH_API_KEY in the environment is one, too")
      ->check([](const std::string& file) { return file.empty() ? "a file's name is missing" : ""; });
  command
      ->add_option("--cache-scope", o.cache_scope,
                   "Whose kept prefixes a request finds: those of its own key (key, the default with several "
                   "keys), or everybody's (all)")
      ->check(CLI::IsMember({"key", "all"}));
  auto* certificate = command->add_option("--tls-cert", o.tls_certificate,
                                          "Serve HTTPS with this certificate, or chain (a PEM file)");
  auto* key = command->add_option("--tls-key", o.tls_key, "Its private key (a PEM file)");
  certificate->needs(key);
  key->needs(certificate);
  command
      ->add_option("--drain-seconds", o.drain_seconds,
                   "How long answers under way may take to finish after SIGTERM or SIGINT; a second signal "
                   "ends them at once")
      ->check(number_in(0.0, 86400.0));
  command
      ->add_option("--volatile-move", o.volatile_move,
                   "Text in system prompts that changes from call to call (a regular expression): it moves "
                   "behind the last user message, so that what comes after it is found again")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command->add_option("--volatile-drop", o.volatile_drop, "The same, but the text is left out")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command->add_flag("--keep-volatile", o.keep_volatile,
                    "Keep the lines in system prompts that are dropped by default: Claude Code's "
                    "x-anthropic-billing-header");
  command->add_option(
      "--served-model-name", o.model_name,
      "The model's name in the API (default: its [model.NAME], or the last part of its path)");
  command
      ->add_option(
          "--pooling", o.model.pooling,
          "Make embeddings of the first (cls) or last token's hidden state, or of their mean; rank: the "
          "model is "
          "a reranker that answers yes or no (default: as the model's files say; without that it makes none)")
      ->check(CLI::IsMember({"cls", "last", "mean", "rank"}));
  command->add_flag("--strict-model-names", o.strict_model_names,
                    "Answer 404 to requests for a model that is not here; by default an unknown name means "
                    "the model of --model");
  command
      ->add_option(
          "--model-memory", o.model_bytes,
          "Memory for the weights of all loaded models together, such as 12GB (default: three quarters "
          "of the device's)")
      ->transform(size_flag());
  command
      ->add_option("--unload-after", o.unload_after_s,
                   "Seconds without a request after which a model is unloaded; 0 = never (default: never for "
                   "the model of --model, 3600 for those that requests name)")
      ->check(number_in(0.0, 1e9));
  command->add_flag(
      "--mlock", o.mlock,
      "Keep loaded weights from being swapped out (Linux; needs a high limit of locked memory)");
  command->add_flag(
      "--lean", o.lean,
      "Leave most of the machine to other programs: half of the threads at a low priority, 2 requests at a "
      "time, small caches, models unloaded after 5 minutes. Other flags change each of these");
  command->add_flag("--pin", o.pin, "The model stays loaded: it gives way to no other");
  add_server_session_flags(*command, o);
  add_mcp_flags(*command, o.mcp);
  add_limit_flags(*command, o);
  add_service_flags(*command, o);
  return command;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const WriteFormat& format : write_formats()) names.emplace_back(format.name);
  return names;
}

CLI::App* add_convert(CLI::App& app, ConvertOptions& o) {
  auto* command = app.add_subcommand("convert", "Quantise a model, or add a prediction head to one");
  command->add_option("source", o.source, "Model directory or file, or a name on the hub")->required();
  command->add_option("output", o.output, "Directory or GGUF file to write (not with --mtp-from)");
  command
      ->add_option("--bits", o.bits,
                   "Bits per weight where no rule says otherwise (default 4); 0 = dense (see --dtype)")
      ->check(CLI::IsMember({0, 2, 3, 4, 5, 6, 8}));
  command->add_option("--group", o.group, "Weights per scale")->check(CLI::IsMember({32, 64, 128}));
  command->add_option("--dtype", o.dtype, "Type of what stays dense")->check(CLI::IsMember({"bf16", "f16"}));
  command
      ->add_option("--format", o.format,
                   "What to write: a directory, mlx (affine codes) or fp8 (E4M3 with a scale for 128 x 128 "
                   "weights); or a GGUF file of the mix q4_k_m, iq4_xs, q8_0 or f16")
      ->check(CLI::IsMember(format_names()));
  command->add_option("--recipe", o.recipe, "JSON file of rules, tensor by tensor (docs/convert.md)");
  command->add_option(
      "--calibration", o.calibration,
      "Text, or JSON lines with \"text\" or \"messages\": the model reads it first, and rounding is "
      "most exact where its inputs are large");
  command->add_option(
      "--perplexity", o.perplexity,
      "Measure perplexity before and after on this text; if it is --calibration's, on its last "
      "tenth, which then does not calibrate");
  command->add_option("--shard-mb", o.shard_mb, "Largest file in MB")->check(CLI::Range(1, 1 << 20));
  command->add_flag("--force", o.force, "Replace the output (with --mtp-from: the head) if it exists");
  auto* mtp = command->add_option("--mtp-from", o.mtp_from,
                                  "Only add this checkpoint's prediction head (mtp.*) to the model directory "
                                  "given as source");
  for (const char* other : {"--bits", "--group", "--dtype", "--format", "--recipe", "--shard-mb",
                            "--calibration", "--perplexity"})
    mtp->excludes(command->get_option(other));
  command->callback([&o] {
    if (!o.output.empty() || !o.mtp_from.empty()) return;
    const WriteFormat* format = find_write_format(o.format);
    throw CLI::RequiredError(fmt::format("give the {} to write as well: anabranch convert {} OUTPUT",
                                         format && format->is_file ? "file" : "directory", o.source),
                             CLI::ExitCodes::RequiredError);
  });
  return command;
}

CLI::App* add_bench(CLI::App& app, BenchOptions& o) {
  auto* command = app.add_subcommand("bench", "Measure prefill and decode speed");
  add_model_flags(*command, o.model);
  command->add_option("--pp", o.prefill, "Prompt lengths to prefill; 0 = none")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--tg", o.decode, "Tokens to decode; 0 = none")->check(CLI::Range(0, 1 << 20));
  command
      ->add_option("--rows", o.rows,
                   "Tokens that one pass takes, logits for each (up to 16: a draft's verification)")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  command->add_option("--depth", o.depths, "Context lengths to decode at")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--reps", o.reps, "Repetitions; the median is reported")->check(CLI::Range(1, 1000));
  command->add_option("--chunk", o.chunk, "Tokens per prefill step (default: 256; on a GPU 2048)")
      ->check(CLI::Range(1, 1 << 20));
  command
      ->add_option("--prompts", o.prompts,
                   "Answer these prompts instead (JSON lines with \"prompt\"), once for each kind of --spec")
      ->delimiter(',');
  command->add_option("--spec", o.kinds, "Kinds of speculation to compare: off, auto, ngram, mtp:3, ...")
      ->delimiter(',');
  command->add_option("--draft", o.draft, "A draft model");
  command->add_option("--temp", o.sampling.temperature, "Temperature of the answers")
      ->check(number_in(0.0f, 100.0f));
  command->add_option("--top-p", o.sampling.top_p, "Their nucleus")->check(number_in(0.0f, 1.0f));
  command->add_flag("--profile", o.profile, "Show where the time goes, stage by stage");
  command->add_flag("--json", o.json, "Print JSON instead of a table");
  add_context_flag(*command, o.model);
  // Without --prompts, `bench` is another benchmark. Flags without an effect on the chosen one are refused.
  auto* prompts = command->get_option("--prompts");
  for (const char* with : {"--spec", "--draft", "--temp", "--top-p", "--context"})
    command->get_option(with)->needs(prompts);
  for (const char* without : {"--pp", "--rows", "--depth", "--chunk", "--profile"})
    command->get_option(without)->excludes(prompts);
  return command;
}

CLI::App* add_eval(CLI::App& app, EvalOptions& o) {
  auto* command = app.add_subcommand("eval", "Measure perplexity on a text");
  add_model_flags(*command, o.model);
  command->add_option("--text", o.text, "Text file (UTF-8)")->required();
  command->add_option("--against", o.against,
                      "The original of a quantised model: also print the KL divergence from it");
  command->add_option("--window", o.window, "Tokens per independent window")->check(CLI::Range(2, 1 << 20));
  auto* json = command->add_flag("--json", o.json, "Print JSON");
  command
      ->add_flag("--each", o.each,
                 "With --json: also the token ids, each one's log-probability, and the most likely one there")
      ->needs(json);
  return command;
}

CLI::App* add_calibrate(CLI::App& app, CalibrateOptions& o) {
  auto* command =
      app.add_subcommand("calibrate", "Measure what a model's own drafts should be made of, and keep it");
  add_model_flags(*command, o.model);
  command->add_option("--text", o.text,
                      "Text file (UTF-8) to measure on (default: the model answers some prompts)");
  command->add_option("--output", o.output, "File to write (default: speculation.json beside the model)");
  command->add_flag("--json", o.json, "Print JSON instead of tables");
  return command;
}

CLI::App* add_cache(CLI::App& app, StatesOptions& o) {
  auto* command = app.add_subcommand("cache", "Look into the states that are kept on disk");
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* help, StatesOptions::Action action) {
    auto* sub = command->add_subcommand(name, help);
    sub->callback([&o, action] { o.action = action; });
    sub->add_option("--cache-dir", o.directory, "Where they are (default: ~/.cache/anabranch/states)");
    sub->add_flag("--json", o.json, "Print JSON");
    return sub;
  };
  using Action = StatesOptions::Action;
  add("ls", "List them: stretches of tokens, and the points to go on from", Action::list)
      ->add_flag("--all", o.all, "All of them, not only those used last");
  add("stats", "Sum them up by model and setting, and count the encoded images", Action::stats);
  add("verify", "Read all of them and check every checksum; exit status 1 when one is bad", Action::verify)
      ->add_flag("--delete", o.remove_bad, "Remove the bad ones");
  auto* clear = add("clear", "Remove them", Action::clear);
  clear->add_flag("-y,--yes", o.yes, "Do not ask");
  clear->add_option("--fingerprint", o.fingerprint, "Only those whose fingerprint begins so")
      ->check(CLI::Validator(
          [](const std::string& text) {
            return text.find_first_not_of("0123456789abcdef") == text.npos ? "" : "not hexadecimal digits";
          },
          "HEX"));
  clear->add_option("--older-than", o.older_than_days, "Only those not used for so many days")
      ->check(number_in(0.0f, 1e5f));
  return command;
}

CLI::App* add_doctor(CLI::App& app, DoctorOptions& o) {
  auto* command = app.add_subcommand("doctor", "Say what this machine offers and what would be used");
  command->add_option("-m,--model", o.model,
                      "Also look at this model; exit status 1 if it would not run here");
  add_device_flag(*command, o.device);
  auto* tune =
      command->add_flag("--tune", o.tune,
                        "Measure with the model which number of threads, size of prefill chunks and number "
                        "of parallel requests suit this machine, and use that from now on");
  tune->needs("--model");
  command->add_option("--tune-seconds", o.tune_seconds, "How long to measure (default: 30)")
      ->check(number_in(1.0f, 3600.0f))
      ->needs(tune);
  command->add_flag("--json", o.json, "Print JSON");
  return command;
}

CLI::App* add_verify(CLI::App& app, VerifyOptions& o) {
  auto* command = app.add_subcommand("verify", "Check a model on this machine and write a report");
  add_model_flags(*command, o.model);
  command->add_option("--draft", o.draft, "A draft model, to check speculation with it as well");
  command->add_option("--report", o.report,
                      "Markdown file to write (default: anabranch-verify-<model name>.md)");
  return command;
}

CLI::App* add_config(CLI::App& app, ConfigOptions& o) {
  auto* command = app.add_subcommand("config", "Configuration files");
  command->require_subcommand(1);
  auto* show =
      command->add_subcommand("show", "Print the value of each flag of serve, and where it comes from");
  show->add_option("-m,--model", o.model, "With the settings of this [model.NAME]");
  show->add_flag("--json", o.json, "Print JSON");
  return command;
}

CLI::App* add_completions(CLI::App& app, std::string& shell) {
  auto* command = app.add_subcommand("completions", "Print what completes commands in a shell");
  command->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  return command;
}

}  // namespace

constexpr const char* kExamples =
    "Examples:\n"
    "  anabranch pull mlx-community/Qwen3.5-9B-4bit\n"
    "  anabranch chat --model mlx-community/Qwen3.5-9B-4bit\n"
    "  anabranch generate --model DIR \"Why is the sky blue?\"\n"
    "  anabranch serve --model DIR --port 8080\n"
    "Every flag can also be set in ~/.config/anabranch/anabranch.toml or as ANABRANCH_NAME in the\n"
    "environment (ANABRANCH_MAX_GAP for --max-gap); `anabranch config show` lists the values.";

Program::Program(bool keep_defaults)
    : app("Anabranch: runs hybrid language models (Qwen3.5-class) and transformers on this machine",
          "anabranch") {
  if (keep_defaults) app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.set_version_flag("--version", ANABRANCH_VERSION);
  app.add_flag("-v,--verbose", verbose, "Say more on stderr");
  app.add_flag("-q,--quiet", quiet, "Only errors on stderr");
  app.add_flag("--no-auto-tune", no_auto_tune, "Leave out what `doctor --tune` found for the model");
  app.add_flag("--offline", offline, "Never download a model; use stored ones only");
  app.add_option("--config", settings_file,
                 "TOML file of flags, read after ~/.config/anabranch/anabranch.toml (docs/configuration.md)");
  app.fallthrough();
  app.footer(kExamples);
  commands = {
      {add_generate(app, generate),
       [this] { return run_generate(generate); },
       {{&generate.model.model}, {&generate.spec.draft}},
       [this] { return check_generate(generate); }},
      {add_chat(app, chat), [this] { return run_chat(chat); }, {{&chat.model.model}, {&chat.spec.draft}}},
      {add_mcp(app, mcp), [this] { return run_mcp(mcp); }, {{&mcp.model.model}, {&mcp.spec.draft}}},
      {add_serve(app, serve),
       [this] { return run_serve(serve); },
       {{&serve.model.model}, {&serve.spec.draft}}},
      {add_stop(app, stop), [this] { return run_stop(stop); }, {}},
      {add_status(app, status), [this] { return run_status(status); }, {}},
      {add_convert(app, convert),
       [this] { return run_convert(convert); },
       {{&convert.source}, {&convert.mtp_from, hub::Purpose::mtp_head}},
       [this] { return check_convert(convert); }},
      {add_bench(app, bench),
       [this] { return bench.prompts.empty() ? run_bench(bench) : run_speculation_bench(bench); },
       {{&bench.model.model}, {&bench.draft}}},
      {add_eval(app, eval), [this] { return run_eval(eval); }, {{&eval.model.model}, {&eval.against}}},
      {add_calibrate(app, calibrate),
       [this] { return run_calibrate(calibrate); },
       {{&calibrate.model.model}}},
      {add_cache(app, states), [this] { return run_cache(states); }, {}},
      {add_sessions(app, sessions), [this] { return run_sessions(sessions); }, {}},
      {add_pull(app, pull), [this] { return run_pull(pull); }, {}},
      {add_ls(app, ls), [this] { return run_ls(ls); }, {}},
      {add_show(app, show), [this] { return run_show(show); }, {}},
      {add_rm(app, rm), [this] { return run_rm(rm); }, {}},
      {add_doctor(app, doctor),
       [this] { return run_doctor(doctor); },
       {{&doctor.model, hub::Purpose::model, IfMissing::refuse}}},
      {add_verify(app, verify),
       [this] { return run_verify(verify); },
       {{&verify.model.model}, {&verify.draft}}},
      {add_config(app, config), [this] { return run_config(config, settings_file); }, {}},
      {add_completions(app, shell),
       [this] {
         say_lines(completion_script(app, shell));
         return 0;
       },
       {}},
  };
  tidy_help(app);
}

}  // namespace anabranch::cli
