#include "cli/model_source.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

#include "base/log.h"
#include "base/mapped_file.h"
#include "base/memory_info.h"
#include "checkpoint/checkpoint.h"
#include "cli/conversation.h"
#include "cli/locate.h"
#include "cli/preflight.h"
#include "cli/prompts.h"
#include "cli/reports.h"
#include "cli/server_access.h"
#include "engine/loader.h"
#include "engine/loader_gguf.h"
#include "hub/address.h"
#include "hub/pull.h"
#include "models/model.h"
#include "models/vision_tower.h"
#include "ops/open.h"
#include "peers/peer_states.h"

namespace anabranch::cli {
namespace {

constexpr size_t kMostTemplateBytes = 16u << 20;
constexpr double kUnloadAfterSeconds = 3600;  // for models that are loaded because requests name them

Result<uint64_t> bytes_of(const std::string& path, const Device& device) {
  TRY(const auto checkpoint, Checkpoint::open(path));
  if (const auto problems = file_problems(*checkpoint, device); !problems.empty())
    return make_error(ErrorKind::unsupported, "{}", problems.front());
  return tensor_bytes(*checkpoint);
}

Result<server::ModelSize> measure(const ServeOptions& options) {
  TRY(const auto device, ops::open_device({options.engine.device.name}));
  server::ModelSize size;
  TRY(size.bytes, bytes_of(options.engine.model_path, *device));
  if (!options.engine.draft_path.empty()) {
    TRY(const uint64_t draft, bytes_of(options.engine.draft_path, *device));
    size.bytes += draft;
  }
  size.keep = {options.pin, options.unload_after_s.value_or(kUnloadAfterSeconds)};
  return size;
}

Result<server::ModelDescription> describe(const ServeOptions& options) {
  TRY(const auto device, ops::open_device({options.engine.device.name}));
  TRY(const auto checkpoint, Checkpoint::open(options.engine.model_path));
  TRY(const auto spec, read_model_spec(*checkpoint, *device));
  server::ModelDescription out{string_at(checkpoint->config(), "model_type"),
                               is_gguf(*checkpoint) ? "gguf" : "safetensors",
                               parameters_in(*checkpoint, &spec), tensor_bytes(*checkpoint)};
  const EngineOptions& engine = options.engine;
  out.context_length =
      engine.context_length > 0 ? std::min(engine.context_length, spec.context_length) : spec.context_length;
  out.layers = static_cast<int>(spec.layers.size());
  out.hidden = spec.hidden;
  out.images = VisionTower::present(*checkpoint);
  const auto pooling = engine.pooling ? engine.pooling : read_pooling(*checkpoint);
  out.embeddings = pooling && pooling != Pooling::rank;
  out.embeddings_only = out.embeddings && !engine.pooling;
  std::error_code failed;
  const auto modified = std::filesystem::last_write_time(options.engine.model_path, failed);
  if (!failed)
    out.modified_ns =
        std::chrono::nanoseconds(std::chrono::file_clock::to_sys(modified).time_since_epoch()).count();
  if (engine.chat_template_path.empty()) {
    TRY(out.chat_template, chat_template_source(*checkpoint));
  } else {
    TRY(out.chat_template, read_file(engine.chat_template_path, kMostTemplateBytes));
  }
  return out;
}

// here: a model of this name can be loaded.
Result<server::PulledModel> pull(const std::string& text, bool here, const std::function<bool()>& cancelled,
                                 const std::function<void(const server::PullState&)>& progress) {
  const auto name = hub::parse_model_name(text);
  // Nothing can be downloaded for a model of a path, or of another program's store.
  if (here && (!name || !locate_stored(text))) return server::PulledModel{text};
  if (!name) return make_error(ErrorKind::invalid, "'{}' is no model's name: {}", text, hub::advice_on(text));
  TRY(const auto settings, hub::settings_from_environment());
  const hub::Watcher watcher{[](const std::string& sentence) { log_info("{}", sentence); }, cancelled};
  const auto advance = [&](const auto& now) { progress({now.done, now.total, now.files}); };
  TRY(const auto report, hub::pull(settings, *name, hub::Purpose::model, watcher, advance, &inspector()));
  return server::PulledModel{name->text(), report.bytes, report.downloaded};
}

}  // namespace

Result<PeerOptions> peer_options(const ServeOptions& options) {
  PeerOptions peers = options.engine.peers;
  for (std::string& url : peers.urls) {
    auto origin = peer_origin(url);
    if (!origin) return make_error(ErrorKind::invalid, "--state-peer: {}", origin.error().message);
    url = std::move(*origin);
  }
  if (peers.urls.empty()) return peers;
  TRY(peers.api_key, key_to_show(options.state_peer_key_file));
  return peers;
}

Result<std::vector<server::NamedAdapter>> named_adapters(const ServeOptions& options) {
  std::vector<server::NamedAdapter> adapters;
  for (const std::string& text : options.adapters) {
    const size_t equals = text.find('=');
    if (equals == text.npos || equals + 1 == text.size())
      return make_error(
          ErrorKind::invalid,
          "--lora {}: write NAME=PATH; requests choose the adapter by naming NAME as their model", text);
    server::NamedAdapter adapter{text.substr(0, equals), text.substr(equals + 1)};
    if (const auto fault = server::fault_of_adapter_name(adapter.name); !fault.empty())
      return make_error(ErrorKind::invalid, "--lora {}: the name {}", text, fault);
    if (std::ranges::find(adapters, adapter.name, &server::NamedAdapter::name) != adapters.end())
      return make_error(ErrorKind::invalid, "--lora {}: there are two adapters of this name", text);
    adapters.push_back(std::move(adapter));
  }
  if (adapters.size() > server::kMostAdapters)
    return make_error(ErrorKind::invalid, "--lora is given {} times, but a model may have {} adapters",
                      adapters.size(), server::kMostAdapters);
  return adapters;
}

Result<server::ReadyModel> load_for_serving(const ServeOptions& options) {
  TRY(EngineOptions wanted, engine_options(options.engine, options.spec, options.cache));
  TRY(wanted.peers, peer_options(options));
  TRY(std::shared_ptr<Engine> engine, make_engine(wanted));
  if (options.mlock) {
    TRY_VOID(lock_memory());
  }
  const SamplingParams sampling = sampling_params(options.sampling, *engine, 0);
  return server::ReadyModel{std::move(engine), sampling, thinking_wish(options.thinking)};
}

server::ModelSource model_source(const ServeOptions& options, const std::string& first) {
  const auto options_of = [options, first](const std::string& name) -> Result<ServeOptions> {
    if (name == first) return options;
    TRY(auto its, options.for_model(name));
    its.engine.cache.events.clear();  // routers expect the events of one model per server
    return its;
  };
  server::ModelSource source;
  source.find = [first,
                 configured = options.configured](const std::string& name) -> std::optional<std::string> {
    if (name == first || std::ranges::find(configured, name) != configured.end()) return name;
    if (!locate_stored(name)) return std::nullopt;
    const auto parsed = hub::parse_model_name(name);  // parsed, because a model's name has several spellings
    return parsed ? parsed->text() : name;
  };
  source.list = [configured = options.configured] {
    std::set<std::string> names(configured.begin(), configured.end());
    if (const auto stored = stored_models())
      for (const auto& model : *stored)
        if (model.problem.empty()) names.insert(model.name);
    return std::vector<std::string>(names.begin(), names.end());
  };
  source.measure = [options_of](const std::string& name) -> Result<server::ModelSize> {
    TRY(const auto its, options_of(name));
    return measure(its);
  };
  source.describe = [options_of](const std::string& name) -> Result<server::ModelDescription> {
    TRY(const auto its, options_of(name));
    return describe(its);
  };
  source.load = [options_of](const std::string& name) -> Result<server::ReadyModel> {
    TRY(const auto its, options_of(name));
    return load_for_serving(its);
  };
  source.pull = [find = source.find](const std::string& name, const auto& cancelled, const auto& progress) {
    return pull(name, find(name).has_value(), cancelled, progress);
  };
  return source;
}

}  // namespace anabranch::cli
