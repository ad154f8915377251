#include "cli/serve_flags.h"

#include "cli/flag_groups.h"

namespace anabranch::cli {
namespace {

FlagGroup router_flags(ServeOptions& o) {
  std::vector<Flag> flags = {
      {"--kv-events", o.engine.cache.events,
       "Report the entries of the prefix cache to routers over ZeroMQ: an endpoint to listen on, such as "
       "tcp://127.0.0.1:5557",
       excludes("--no-cache")},
      {"--read-ahead", named(o.server.read_ahead, {{"on", true}, {"off", false}}),
       "After an answer, compute the beginning of the conversation's next prompt while no request waits "
       "(default: on)",
       excludes("--no-cache")},
      {"--keep-thinking", o.server.keep_thinking,
       "Prompts keep the thoughts of earlier turns, with models whose template knows preserve_thinking; "
       "those "
       "that clients do not send back are restored. Nothing is read twice then, but prompts grow"},
      {"--slot-save-path", o.server.directories.slots,
       "Directory for the files of POST /slots/{id}?action=save and restore, as llama-server has them "
       "(docs/llama-server.md)"},
      {"--share-states", o.server.share_states,
       "Give entries of the prefix cache to other workers of this model that ask for them (behind the API "
       "keys)"},
      {"--state-peer", o.engine.peers.urls,
       "Address of another worker, such as http://10.0.0.5:11436, from whose prefix cache entries are "
       "fetched before a prompt is computed (may be given several times)",
       repeated()},
      {"--state-peer-timeout", o.engine.peers.timeout_s,
       "Seconds that a prompt waits for other workers at most; then it is computed here (default: 2)",
       within(0.01, 600.0)},
      {"--state-peer-key-file", o.state_peer_key_file,
       "File with the API key for those workers (default: ANABRANCH_API_KEY in the environment)"},
  };
  return {"Cache", std::move(flags)};
}

Rule not_empty() {
  return [](CLI::Option& option) {
    option.check([](const std::string& file) { return file.empty() ? "a file's name is missing" : ""; });
  };
}

FlagGroup access_flags(ServeOptions& o) {
  using server::CacheScope;
  std::vector<Flag> flags = {
      {"--host", o.server.host, "Address to listen on"},
      {"-p,--port", o.server.port, "Port to listen on; 0 = any free one", within(0, 65535)},
      {"--parallel", o.engine.max_running,
       "Requests that run at a time; others wait (default: 8; with --device cuda 256, as far as memory "
       "allows)",
       within(1, 1024)},
      {"--queue", o.engine.max_queue, "Requests that wait at most; more are refused (default: 64)",
       within(0, 1 << 16)},
      {"--max-gap", o.engine.max_gap_ms,
       "Milliseconds between two tokens of a stream that reading other prompts may cause (default: 50; the "
       "bound is never below 2.2 times a step without prompts)",
       within(0.0, 60000.0)},
      {"--memory", o.engine.memory_bytes,
       "Memory for the KV caches and recurrent states of running requests, such as 4GB (default: half of the "
       "machine's memory, or less if less is free)",
       size()},
      {"--allow-host", o.server.allowed_hosts,
       "A further name that requests may have in Host (may be given several times)", repeated()},
      {"--allow-image-urls", o.image_hosts,
       "Hosts, separated by commas, from which images are fetched that requests name by a web address "
       "(default: none)",
       repeated(), listed()},
      {"--cors-origin", o.server.cors_origins,
       "An origin whose web pages may use the server, such as http://localhost:3000; * for all (may be given "
       "several times)",
       repeated()},
      {"--api-key", o.api_keys,
       "A key that requests must show (may be given several times; others on this machine can read it in the "
       "list of processes: prefer the next two)",
       repeated()},
      {"--api-key-file", o.api_key_file,
       "File with such keys, one a line; ANABRANCH_API_KEY in the environment is one, too", not_empty()},
      {"--cache-scope", named(o.server.cache_scope, {{"key", CacheScope::key}, {"all", CacheScope::all}}),
       "Whose cached prefixes a request finds: those of its own key (key, the default with several keys), or "
       "everybody's (all)"},
      {"--tls-cert", o.server.tls.certificate, "Serve HTTPS with this certificate, or chain (a PEM file)",
       needs("--tls-key")},
      {"--tls-key", o.server.tls.key, "Its private key (a PEM file)", needs("--tls-cert")},
      {"--drain-seconds", o.server.stop_grace_s,
       "How long answers under way may take to finish after SIGTERM or SIGINT; a second signal ends them at "
       "once",
       within(0.0, 86400.0)},
  };
  return {"", std::move(flags)};
}

FlagGroup models_flags(ServeOptions& o) {
  std::vector<Flag> flags = {
      {"--volatile-move", o.volatile_move,
       "Text in system prompts that changes from call to call (a regular expression): it moves behind the "
       "last user message, so that what comes after it is found again",
       repeated()},
      {"--volatile-drop", o.volatile_drop, "The same, but the text is left out", repeated()},
      {"--keep-volatile", o.keep_volatile,
       "Keep the lines in system prompts that are dropped by default: Claude Code's "
       "x-anthropic-billing-header"},
      {"--served-model-name", o.engine.model_name,
       "The model's name in the API (default: its [model.NAME], or the last part of its path)", OfModel()},
      {"--lora", o.adapters,
       "A LoRA adapter that requests choose by this name as their model: NAME=PATH, a directory of PEFT or "
       "MLX or "
       "a GGUF file (may be given several times; docs/adapters.md)",
       repeated(), OfModel()},
      {"--lora-dir", o.server.directories.adapters,
       "Let clients load adapters from this directory (POST /v1/load_lora_adapter; may be given several "
       "times)",
       repeated()},
      {"--pooling",
       named(o.engine.pooling, {{"cls", Pooling::first},
                                {"last", Pooling::last},
                                {"mean", Pooling::mean},
                                {"rank", Pooling::rank}}),
       "Make embeddings of the first (cls) or last token's hidden state, or of their mean; rank: the model "
       "is a reranker that answers yes or no (default: as the model's files say; without that it makes "
       "none)"},
      {"--strict-model-names", o.strict_model_names,
       "Answer 404 to requests for a model that is not here; by default an unknown name means the model of "
       "--model"},
      {"--model-memory", o.model_bytes,
       "Memory for the weights of all loaded models together, such as 12GB (default: three quarters of the "
       "device's)",
       size()},
      {"--unload-after", o.unload_after_s,
       "Seconds without a request after which a model is unloaded; 0 = never (default: never for the model "
       "of --model, 3600 for those that requests name)",
       within(0.0, 1e9)},
      {"--mlock", o.mlock,
       "Keep loaded weights from being swapped out (Linux; needs a high limit of locked memory)"},
      {"--lean", o.lean,
       "Leave most of the machine to other programs: half of the threads at a low priority, 2 requests at a "
       "time, small caches, models unloaded after 5 minutes. Other flags change each of these"},
      {"--pin", o.pin, "The model stays loaded: it gives way to no other", OfModel()},
  };
  return {"", std::move(flags)};
}

FlagGroup session_flags(ServeOptions& o) {
  std::vector<Flag> flags = {
      {"--sessions", o.sessions,
       "Keep conversations and stored responses in this directory; off: keep none (default: conversations "
       "for which a client asks it, in ~/.local/share/anabranch/sessions)"},
      {"--sessions-days", o.server.sessions.retention.days,
       "Remove conversations that were not changed for this many days (default: never)", within(0.0, 1e6)},
      {"--sessions-size", o.server.sessions.retention.bytes,
       "Remove a key's sessions that were changed longest ago beyond this size of text, such as 1GB "
       "(default: no limit)",
       size()},
  };
  return {"Sessions", std::move(flags)};
}

FlagGroup limit_flags(ServeOptions& o) {
  server::HttpLimits& limits = o.server.limits;
  std::vector<Flag> flags = {
      {"--request-timeout", o.server.request_timeout_s,
       "Seconds that a request may take, from its arrival to the end of its answer (default: no limit)",
       within(0.001, 86400.0)},
      {"--max-body", limits.body_bytes, "Size of a request's body (default: 32MB)", size(),
       within(1024.0, 1e9)},
      {"--requests-per-minute", o.server.requests_per_minute,
       "Requests for answers of one client address, loopback addresses aside (default: no limit)",
       within(1, 1 << 30)},
      {"--max-connections", o.connections,
       "Connections at a time; beyond them idle ones are closed, then new ones refused (default: 256, or 64 "
       "more than "
       "--parallel and --queue together)",
       within(1, 1 << 16)},
      {"--max-connections-per-address", limits.connections_per_address,
       "How many of them one client address may have, loopback addresses and trusted proxies aside (default: "
       "64)",
       within(1, 1 << 16)},
      {"--trusted-proxy", o.trusted_proxies,
       "Address or network, such as 10.0.0.0/8, of a proxy whose X-Forwarded-For tells the client's address "
       "(may be given several times)",
       repeated()},
  };
  return {"Limits", std::move(flags)};
}

FlagGroup service_flags(ServeOptions& o) {
  std::vector<Flag> flags = {
      {"--log-format", o.log_format, "Lines of the log: text, or json, an object each (docs/service.md)",
       one_of({"text", "json"})},
      {"--log-file", o.log_file, "Append the log to this file instead of stderr; SIGHUP opens it again"},
      {"--detach", o.detach,
       "Return when the server listens, and leave it running in the background (see stop, status)"},
      {"--pid-file", o.pid_file,
       "File with the server's process id (default: none; with --detach "
       "~/.local/state/anabranch/serve-PORT.pid, and the log beside it)"},
      {"--access-log", o.server.access_log,
       "Append a line about each request to this file: who, what, how many tokens, how long; never text "
       "(docs/service.md)"},
      {"--access-log-size", o.server.access_log_bytes,
       "Begin it anew at this size; five old ones are kept (default: 64MB)", size(), within(4096.0, 1e15)},
      {"--otlp", o.server.otlp.url,
       "Send a trace of each answer to this OpenTelemetry collector, such as http://127.0.0.1:4318; never "
       "text (docs/service.md)"},
  };
  return {"Service", std::move(flags)};
}

}  // namespace

std::vector<FlagGroup> serve_flags(ServeOptions& o) {
  return {model_flags(o.engine),
          context_flags(o.engine),
          sampler_flags(o.sampling),
          spec_flags(o.engine, o.spec),
          cache_flags(o.engine, o.cache),
          router_flags(o),
          thinking_flags(o.thinking),
          access_flags(o),
          models_flags(o),
          session_flags(o),
          mcp_flags(o.mcp),
          limit_flags(o),
          service_flags(o)};
}

}  // namespace anabranch::cli
