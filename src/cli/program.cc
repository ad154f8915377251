#include "cli/program.h"

#include "checkpoint/write_format.h"
#include "cli/choose_model.h"
#include "cli/completions.h"
#include "cli/flag_groups.h"
#include "cli/flags.h"
#include "cli/launch_programs.h"
#include "cli/print.h"
#include "cli/serve_flags.h"
#include "sessions/session_store.h"

namespace anabranch::cli {
namespace {

using Command = Program::Command;

std::vector<Program::Located> models_of(EngineOptions& o) {
  return {{&o.model_path}, {&o.draft_path}};
}

// Refuses a command line without a model. With `yes`, models are offered where --model is not given at all,
// unless there is nobody to ask.
void require_model(const CLI::App& command, const EngineOptions& engine, const bool* yes, const char* names) {
  if (!engine.model_path.empty()) return;
  const bool not_given = command.get_option("--model")->count() == 0;
  if (not_given && yes && (*yes || can_ask())) return;
  throw CLI::RequiredError(names);
}

Command add_generate(CLI::App& app, GenerateOptions& o) {
  const std::vector<Flag> own = {
      {"-p,--prompt,prompt", o.prompt, "The prompt (default: standard input)"},
      {"-f,--prompt-file", o.prompt_file, "Read the prompt from a file"},
      image_flag(o.images,
                 "Put an image before the prompt: a PNG, JPEG or WebP file (may be given several times)"),
      {"-s,--system", o.system, "System message"},
      {"--raw", o.raw, "Continue the text as it is, without a chat template"},
      {"--json-schema", o.json_schema, "The answer satisfies this JSON schema (a file, or itself)"},
      {"--grammar", o.grammar, "The answer follows this grammar (EBNF: a file, or itself)",
       excludes("--json-schema")},
      {"--ignore-eos", o.ignore_eos, "Go on past the end of the turn (for measuring)"},
      json_flag(o.json, "End with one JSON object: text, token ids, counts, speeds"),
      {"--logprobs", o.logprobs,
       "With --json: each token's log probability, and those of this many alternatives", needs("--json"),
       within(0, kMaxLogprobs)},
  };
  auto* command =
      add_command(app, "generate", "Answer one prompt",
                  {model_flags(o.engine), choice_flags(o.yes), context_flags(o.engine),
                   adapter_flags(o.adapters), sampling_flags(o.sampling), spec_flags(o.engine, o.spec),
                   cache_flags(o.engine, o.cache), thinking_flags(o.thinking)},
                  own);
  CLI::Option* model = command->get_option("--model");
  model->required(false);
  command->callback([command, model, &o] {
    if (model->count() == 0) require_model(*command, o.engine, &o.yes, "--model");
  });
  return {command, [&o] { return run_generate(o); }, models_of(o.engine), [&o] { return check_generate(o); },
          Program::Choice{&o.engine, &o.yes}};
}

// Adds the flags that `chat` and `mcp` share, and the others. With --url a server answers, so flags for
// loading a model here are refused. yes: see require_model().
CLI::App* add_partner(CLI::App& app, const char* name, const char* help, ChatOptions& o,
                      std::vector<FlagGroup> others, const bool* yes = nullptr) {
  o.sampling.max_tokens = -1;
  const FlagGroup server = {
      "Server",
      {
          {"--url", o.url,
           "Talk to this running server (http://HOST:PORT) instead of loading a model; --model then names "
           "one of its models"},
          {"--api-key-file", o.api_key_file,
           "File whose first key is shown to the server (or ANABRANCH_API_KEY in the environment)",
           needs("--url")},
      }};
  std::vector<FlagGroup> groups = {model_flags(o.engine),        context_flags(o.engine),
                                   adapter_flags(o.adapters),    sampling_flags(o.sampling),
                                   spec_flags(o.engine, o.spec), cache_flags(o.engine, o.cache),
                                   thinking_flags(o.thinking),   server};
  groups.insert(groups.end(), others.begin(), others.end());
  CLI::App* command = add_command(app, name, help, groups);
  CLI::Option *url = command->get_option("--url"), *model = command->get_option("--model");
  for (CLI::Option* option : command->get_options())
    for (const char* loading : {"Model", "Speculation", "Cache"})
      if (option != model && option->get_group() == loading) url->excludes(option);
  model->required(false);
  command->callback([command, &o, yes] {
    if (o.url.empty()) require_model(*command, o.engine, yes, "--model (or --url)");
  });
  return command;
}

// A flag that may also stand without its value.
Rule optional_value(const char* type) {
  return [type](CLI::Option& option) { option.type_name(type)->expected(0, 1); };
}

// Whether --sessions was given. A setting says "on" where the flag has no value.
bool names_sessions(const CLI::Option& option, const ChatOptions& o) {
  return option.count() > 0 && as_switch(o.sessions.directory) != false;
}

Command add_chat(CLI::App& app, ChatOptions& o) {
  FlagGroup tools = mcp_flags(o.mcp);
  tools.flags.push_back({"--mcp-allow", o.mcp.allow,
                         "Let the model call this server's tools (SERVER), or one tool (SERVER.TOOL), "
                         "without asking (may be given several times)",
                         needs("--mcp-config"), repeated()});
  auto* command = add_partner(
      app, "chat", "Talk in the terminal", o,
      {{"",
        {
            {"-s,--system", o.system, "System message"},
            image_flag(o.images,
                       "Put an image before the first message: a PNG, JPEG or WebP file (may be given "
                       "several times)"),
        }},
       {"Sessions",
        {
            {"--sessions", o.sessions.directory,
             "Keep the conversation in this directory (without DIR: ~/.local/share/anabranch/sessions)",
             optional_value("[DIR]")},
            {"--resume", o.sessions.resume,
             "Go on with a kept conversation: its id, the beginning of it, or a part of the title (without "
             "it: the last one)",
             optional_value("[SESSION]"), excludes("--system")},
        }},
       {"",
        {
            {"--no-history", o.no_history,
             "Do not keep what you enter for the arrow keys of the next run "
             "(~/.local/state/anabranch/chat_history)"},
        }},
       tools,
       choice_flags(o.yes)},
      &o.yes);
  const CLI::Option *sessions = command->get_option("--sessions"), *resume = command->get_option("--resume");
  command->parse_complete_callback([&o, sessions, resume] {
    o.keep = names_sessions(*sessions, o) || resume->count() > 0;
    if (resume->count() > 0 && !o.sessions.resume) o.sessions.resume = "";
  });
  return {command, [&o] { return run_chat(o); }, models_of(o.engine),
          [&o] { return check_adapters(o.adapters); }, Program::Choice{&o.engine, &o.yes}};
}

Command add_mcp(CLI::App& app, ChatOptions& o) {
  const FlagGroup own = {"",
                         {{"-s,--system", o.system, "System message where a call brings none"},
                          {"--sessions", o.sessions.directory,
                           "Also offer the conversations that are kept in this directory (without DIR: "
                           "~/.local/share/anabranch/sessions)",
                           optional_value("[DIR]")}}};
  auto* command =
      add_partner(app, "mcp", "Offer the model to other programs, as an MCP server on stdio", o, {own});
  const CLI::Option* sessions = command->get_option("--sessions");
  command->parse_complete_callback([&o, sessions] { o.keep = names_sessions(*sessions, o); });
  return {command, [&o] { return run_mcp(o); }, models_of(o.engine),
          [&o] { return check_adapters(o.adapters); }};
}

Command add_serve(CLI::App& app, ServeOptions& o) {
  auto* command = add_command(app, "serve", "Serve the OpenAI API", serve_flags(o));
  command->get_option("--model")->required(false);  // requests can also name models
  return {command, [&o] { return run_serve(o); }, models_of(o.engine)};
}

FlagGroup server_flags(int& port, std::string& pid_file) {
  std::vector<Flag> flags = {
      {"-p,--port", port, "The port that the server listens on", within(0, 65535)},
      {"--pid-file", pid_file, "Its pid file, if that is not the usual one of the port"},
  };
  return {"", std::move(flags)};
}

Command add_stop(CLI::App& app, StopOptions& o) {
  auto* command = add_command(app, "stop", "Stop a server that serve --detach started",
                              {server_flags(o.port, o.pid_file)});
  return {command, [&o] { return run_stop(o); }};
}

Command add_status(CLI::App& app, StatusOptions& o) {
  auto* command = add_command(
      app, "status", "Report whether a server runs, and its requests", {server_flags(o.port, o.pid_file)},
      {
          {"--api-key-file", o.api_key_file,
           "File whose first key is shown to the server (or ANABRANCH_API_KEY in the environment)"},
          json_flag(o.json),
      });
  return {command, [&o] { return run_status(o); }};
}

Command add_launch(CLI::App& app, LaunchOptions& o, const std::string& settings_file, const bool& offline) {
  auto* command = add_command(
      app, "launch", "Run a coding agent with a server of this machine (the agent's own words follow --)",
      {server_flags(o.port, o.pid_file)},
      {
          {"program", o.program, "The agent: Claude Code, Codex, opencode, Qwen Code or aider", required(),
           one_of(launch_names())},
          {"-m,--model", o.model,
           "A name of the running server's models (default: the first of its list); without a server, the "
           "model to serve"},
          {"--api-key-file", o.api_key_file,
           "File whose first key the agent gets (or ANABRANCH_API_KEY in the environment)"},
          {"--print", o.print, "Show the variables and the command, and run nothing"},
      });
  return {command, [&o, &settings_file, &offline] {
            std::vector<std::string> flags;
            if (!settings_file.empty()) flags.push_back("--config=" + settings_file);
            if (offline) flags.push_back("--offline");
            return run_launch(o, flags);
          }};
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const WriteFormat& format : write_formats()) names.emplace_back(format.name);
  return names;
}

Command add_convert(CLI::App& app, ConvertOptions& o) {
  const Rule converts = excludes("--mtp-from");
  auto* command = add_command(
      app, "convert", "Quantise a model, or add a prediction head to one", {},
      {
          {"source", o.source, "Model directory or file, or a name on the hub", required()},
          {"output", o.output, "Directory or GGUF file to write (not with --mtp-from)"},
          {"--bits", o.bits,
           "Bits per weight where no rule says otherwise (default 4); 0 = dense (see --dtype)",
           one_of({0, 2, 3, 4, 5, 6, 8}), converts},
          {"--group", o.group, "Weights per scale", one_of({32, 64, 128}), converts},
          {"--dtype", o.dtype, "Type of what stays dense", one_of({"bf16", "f16"}), converts},
          {"--format", o.format,
           "What to write: a directory, mlx (affine codes) or fp8 (E4M3 with a scale for 128 x 128 weights); "
           "or a GGUF file of the mix q4_k_m, iq4_xs, q8_0 or f16",
           one_of(format_names()), converts},
          {"--recipe", o.recipe, "JSON file of rules, tensor by tensor (docs/convert.md)", converts},
          {"--calibration", o.calibration,
           "Text, or JSON lines with \"text\" or \"messages\": the model reads it first, and rounding is "
           "most exact where its inputs are large",
           converts},
          {"--perplexity", o.perplexity,
           "Measure perplexity before and after on this text; if it is --calibration's, on its last tenth, "
           "which then does not calibrate",
           converts},
          {"--shard-mb", o.shard_mb, "Largest file in MB", within(1, 1 << 20), converts},
          {"--force", o.force, "Replace the output (with --mtp-from: the head) if it exists"},
          {"--mtp-from", o.mtp_from,
           "Only add this checkpoint's prediction head (mtp.*) to the model directory given as source"},
      });
  command->callback([&o] {
    if (!o.output.empty() || !o.mtp_from.empty()) return;
    const WriteFormat* format = find_write_format(o.format);
    throw CLI::RequiredError(fmt::format("give the {} to write as well: anabranch convert {} OUTPUT",
                                         format && format->is_file ? "file" : "directory", o.source),
                             CLI::ExitCodes::RequiredError);
  });
  return {command,
          [&o] { return run_convert(o); },
          {{&o.source}, {&o.mtp_from, hub::Purpose::mtp_head}},
          [&o] { return check_convert(o); }};
}

// Without --prompts, `bench` is another benchmark. Flags without an effect on the chosen one are refused.
Command add_bench(CLI::App& app, BenchOptions& o) {
  const Rule with = needs("--prompts"), without = excludes("--prompts");
  auto* command = add_command(
      app, "bench", "Measure prefill and decode speed",
      {model_flags(o.engine),
       {"",
        {
            {"--pp", o.prefill, "Prompt lengths to prefill; 0 = none", listed(), within(0, 1 << 24), without},
            {"--tg", o.decode, "Tokens to decode; 0 = none", within(0, 1 << 20)},
            {"--rows", o.rows,
             "Tokens that one pass takes, logits for each (up to 16: a draft's verification)", listed(),
             within(1, 256), without},
            {"--depth", o.depths, "Context lengths to decode at", listed(), within(0, 1 << 24), without},
            {"--reps", o.reps, "Repetitions; the median is reported", within(1, 1000)},
            {"--chunk", o.chunk, "Tokens per prefill step (default: 256; on a GPU 2048)", within(1, 1 << 20),
             without},
            {"--prompts", o.prompts,
             "Answer these prompts instead (JSON lines with \"prompt\"), once for each kind of --spec",
             listed()},
            {"--spec", o.kinds, "Kinds of speculation to compare: off, auto, ngram, mtp:3, ...", listed(),
             with},
            {"--draft", o.engine.draft_path, "A draft model", with},
            {"--temp", o.sampling.temperature, "Temperature of the answers", within(0.0, 100.0), with},
            {"--top-p", o.sampling.top_p, "Their nucleus", within(0.0, 1.0), with},
            {"--profile", o.profile, "Show where the time goes, stage by stage", without},
            json_flag(o.json, "Print JSON instead of a table"),
        }},
       context_flags(o.engine)});
  command->get_option("--context")->needs("--prompts");
  return {command, [&o] { return o.prompts.empty() ? run_bench(o) : run_speculation_bench(o); },
          models_of(o.engine)};
}

Command add_eval(CLI::App& app, EvalOptions& o) {
  auto* command = add_command(
      app, "eval", "Measure perplexity on a text", {model_flags(o.engine)},
      {
          {"--text", o.text, "Text file (UTF-8)", required()},
          {"--against", o.against, "The original of a quantised model: also print the KL divergence from it"},
          {"--window", o.window, "Tokens per independent window", within(2, 1 << 20)},
          json_flag(o.json),
          {"--each", o.each,
           "With --json: also the token ids, each one's log-probability, and the most likely one there",
           needs("--json")},
      });
  return {command, [&o] { return run_eval(o); }, {{&o.engine.model_path}, {&o.against}}};
}

Command add_calibrate(CLI::App& app, CalibrateOptions& o) {
  auto* command = add_command(
      app, "calibrate", "Measure what a model's own drafts should be made of, and keep it",
      {model_flags(o.engine)},
      {
          {"--text", o.text, "Text file (UTF-8) to measure on (default: the model answers some prompts)"},
          {"--output", o.output, "File to write (default: speculation.json beside the model)"},
          json_flag(o.json, "Print JSON instead of tables"),
      });
  return {command, [&o] { return run_calibrate(o); }, models_of(o.engine)};
}

Rule hexadecimal() {
  return [](CLI::Option& option) {
    option.check(CLI::Validator(
        [](const std::string& text) {
          return text.find_first_not_of("0123456789abcdef") == text.npos ? "" : "not hexadecimal digits";
        },
        "HEX"));
  };
}

Command add_cache(CLI::App& app, StatesOptions& o) {
  auto* command = app.add_subcommand("cache", "Inspect the prefix cache on disk");
  command->require_subcommand(1);
  const FlagGroup shared = {
      "",
      {
          {"--cache-dir", o.directory, "The cache's directory (default: ~/.cache/anabranch/states)"},
          json_flag(o.json),
      }};
  const auto add = [&](const char* name, const char* help, StatesOptions::Action action,
                       std::vector<Flag> own = {}) {
    add_command(*command, name, help, {shared}, std::move(own))->callback([&o, action] {
      o.action = action;
    });
  };
  using Action = StatesOptions::Action;
  add("ls", "List the entries: ranges of tokens, and the points to resume from", Action::list,
      {{"--all", o.all, "List all entries, not only the last used"}});
  add("stats", "Sum up the entries by model and setting, and count the encoded images", Action::stats);
  add("verify", "Read all entries and check every checksum; exit status 1 if one is bad", Action::verify,
      {{"--delete", o.remove_bad, "Remove the bad entries"}});
  add("clear", "Remove entries, or all of them", Action::clear,
      {
          {"-y,--yes", o.yes, "Do not ask"},
          {"--fingerprint", o.fingerprint, "Only entries whose fingerprint begins with this", hexadecimal()},
          {"--older-than", o.older_than_days, "Only entries that were not used for this many days",
           within(0.0, 1e5)},
      });
  return {command, [&o] { return run_cache(o); }};
}

Command add_sessions(CLI::App& app, SessionsOptions& o) {
  auto* command =
      app.add_subcommand("sessions", "List, search, show, remove, export and import conversations");
  command->require_subcommand(1);
  using Action = SessionsOptions::Action;
  const FlagGroup place = {
      "", {{"--sessions", o.directory, "Where they are (default: ~/.local/share/anabranch/sessions)"}}};
  const auto add = [&](const char* name, const char* help, Action action, std::vector<Flag> own) {
    add_command(*command, name, help, {place}, std::move(own))->callback([&o, action] { o.action = action; });
  };
  const Flag one = {"session", o.session,
                    "Its id, the beginning of it, or a part of the title (default: the last one)"};
  const Flag named_one = {"session", o.session, "Its id, the beginning of it, or a part of the title",
                          required()};
  add("ls", "List them, the last changed first", Action::list,
      {
          {"words", o.text, "Only those with these words, or this in their title"},
          {"--limit", o.limit, "So many at most (default: 50)", within(1, SessionStore::kMaxListed)},
          {"--all", o.all, "Also those that came about by stored responses"},
          json_flag(o.json),
      });
  add("show", "Print one as Markdown", Action::show, {one});
  add("export", "Write one as text", Action::export_text,
      {
          one,
          {"--format", o.format, "jsonl (the default), which import reads, or markdown",
           one_of({"jsonl", "markdown"})},
          {"-o,--output", o.file, "File to write (default: standard output)"},
      });
  add("import", "Make sessions of what export wrote", Action::import,
      {{"file", o.file, "A file; - for standard input", required()}});
  add("rename", "Give one another title", Action::rename,
      {named_one, {"title", o.text, "The title", required()}});
  add("rm", "Remove one for good", Action::remove, {named_one, {"-y,--yes", o.yes, "Do not ask"}});
  return {command, [&o] { return run_sessions(o); }};
}

Command add_pull(CLI::App& app, PullOptions& o) {
  auto* command = add_command(
      app, "pull", "Download a model from the Hugging Face hub", {},
      {
          {"name", o.name,
           "ORG/NAME, or ORG/NAME:QUANT or ORG/NAME/FILE of a GGUF repository (docs/models.md)", required()},
          {"--revision", o.revision, "A branch, tag or commit (default: main)"},
          {"--anyway", o.anyway, "Download it even if this program cannot run it"},
      });
  return {command, [&o] { return run_pull(o); }};
}

Command add_ls(CLI::App& app, ListOptions& o) {
  auto* command = add_command(
      app, "ls", "List the models that are stored here, Ollama's and LM Studio's too", {},
      {
          json_flag(o.json),
          {"--names", o.names, "Print names only, of models that can be used", excludes("--json")},
      });
  return {command, [&o] { return run_ls(o); }};
}

Command add_show(CLI::App& app, ShowOptions& o) {
  auto* command = add_command(
      app, "show",
      "Describe a model: family, size, quantisation, context, and whether it fits; it need not be stored", {},
      {
          {"model", o.model, "A path, or a name on the hub", required()},
          device_flag(o.device),
          json_flag(o.json),
      });
  return {command, [&o] { return run_show(o); }};
}

Command add_rm(CLI::App& app, RemoveOptions& o) {
  auto* command = add_command(
      app, "rm", "Remove a stored model", {},
      {
          {"model", o.model,
           "ORG/NAME (all its revisions), ORG/NAME@REVISION, ORG/NAME:QUANT or ORG/NAME/FILE", required()},
          {"-y,--yes", o.yes, "Do not ask"},
      });
  return {command, [&o] { return run_rm(o); }};
}

Command add_doctor(CLI::App& app, DoctorOptions& o) {
  auto* command = add_command(
      app, "doctor", "Say what this machine offers and what would be used", {},
      {
          {"-m,--model", o.model, "Also look at this model; exit status 1 if it would not run here"},
          device_flag(o.device),
          {"--tune", o.tune,
           "Measure with the model which number of threads, size of prefill chunks and number of parallel "
           "requests suit this machine, and use that from now on",
           needs("--model")},
          {"--tune-seconds", o.tune_seconds, "How long to measure (default: 30)", within(1.0, 3600.0),
           needs("--tune")},
          json_flag(o.json),
      });
  return {command, [&o] { return run_doctor(o); }, {{&o.model, hub::Purpose::model, IfMissing::refuse}}};
}

Command add_verify(CLI::App& app, VerifyOptions& o) {
  auto* command = add_command(
      app, "verify", "Check a model on this machine and write a report", {model_flags(o.engine)},
      {
          {"--draft", o.engine.draft_path, "A draft model, to check speculation with it as well"},
          {"--report", o.report, "Markdown file to write (default: anabranch-verify-<model name>.md)"},
      });
  return {command, [&o] { return run_verify(o); }, models_of(o.engine)};
}

Command add_config(CLI::App& app, ConfigOptions& o, const std::string& settings_file) {
  auto* command = app.add_subcommand("config", "Configuration files");
  command->require_subcommand(1);
  add_command(*command, "show", "Print the value of each flag of serve, and where it comes from", {},
              {
                  {"-m,--model", o.model, "With the settings of this [model.NAME]"},
                  json_flag(o.json),
              });
  return {command, [&o, &settings_file] { return run_config(o, settings_file); }};
}

Command add_completions(CLI::App& app, std::string& shell) {
  auto* command =
      add_command(app, "completions", "Print what completes commands in a shell", {},
                  {
                      {"shell", shell, "bash, zsh or fish", required(), one_of({"bash", "zsh", "fish"})},
                  });
  return {command, [&app, &shell] { return say_lines(completion_script(app, shell)), 0; }};
}

}  // namespace

constexpr const char* kExamples =
    "Examples:\n"
    "  anabranch pull mlx-community/Qwen3.5-9B-4bit\n"
    "  anabranch chat --model mlx-community/Qwen3.5-9B-4bit\n"
    "  anabranch generate --model DIR \"Why is the sky blue?\"\n"
    "  anabranch serve --model DIR --port 8080\n"
    "  anabranch launch claude\n"
    "Every flag can also be set in ~/.config/anabranch/anabranch.toml or as ANABRANCH_NAME in the\n"
    "environment (ANABRANCH_MAX_GAP for --max-gap); `anabranch config show` lists the values.";

Program::Program(bool keep_defaults)
    : app("Anabranch: runs hybrid language models (Qwen3.5-class) and transformers on this machine",
          "anabranch") {
  if (keep_defaults) app.option_defaults()->always_capture_default();
  app.require_subcommand(1);
  app.set_version_flag("--version", ANABRANCH_VERSION);
  add_flags(
      app,
      {{"",
        {
            {"-v,--verbose", verbose, "Say more on stderr"},
            {"-q,--quiet", quiet, "Only errors on stderr"},
            {"--no-auto-tune", no_auto_tune, "Leave out what `doctor --tune` found for the model"},
            {"--offline", offline, "Never download a model; use stored ones only"},
            {"--config", settings_file,
             "TOML file of flags, read after ~/.config/anabranch/anabranch.toml (docs/configuration.md)"},
        }}});
  app.fallthrough();
  app.footer(kExamples);
  commands = {add_generate(app, generate),
              add_chat(app, chat),
              add_mcp(app, mcp),
              add_serve(app, serve),
              add_stop(app, stop),
              add_status(app, status),
              add_launch(app, launch, settings_file, offline),
              add_convert(app, convert),
              add_bench(app, bench),
              add_eval(app, eval),
              add_calibrate(app, calibrate),
              add_cache(app, states),
              add_sessions(app, sessions),
              add_pull(app, pull),
              add_ls(app, ls),
              add_show(app, show),
              add_rm(app, rm),
              add_doctor(app, doctor),
              add_verify(app, verify),
              add_config(app, config, settings_file),
              add_completions(app, shell)};
  tidy_help(app);
}

}  // namespace anabranch::cli
