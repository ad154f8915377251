#include "server/api/model_actions.h"

#include <atomic>
#include <utility>

#include "base/clock.h"
#include "server/api/json_fields.h"
#include "server/api/ollama/format.h"
#include "server/api/ollama/models.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostPulls = 16;               // under way or waiting
constexpr double kSecondsBetweenReports = 0.5;  // of a download
constexpr double kMostSeconds = 1e9;            // longest time to keep a model loaded
constexpr const char* kHeartbeat = ": still working\n\n";

std::string line_of(const Json& json) {
  return dump_json(json) + "\n";
}
std::string event_of(const Json& json) {
  return "data: " + dump_json(json) + "\n\n";
}

// The sampling defaults for requests that do not set them.
Json defaults_json(const SamplingParams& sampling) {
  return {{"temperature", shortest(sampling.temperature)},
          {"top_p", shortest(sampling.top_p)},
          {"top_k", sampling.top_k},
          {"min_p", shortest(sampling.min_p)}};
}

}  // namespace

Json model_json(const std::string& name, const ModelPool::Entry* entry, int64_t created) {
  Json json = {{"id", name},
               {"object", "model"},
               {"created", created},
               {"owned_by", "anabranch"},
               {"state", name_of(entry ? entry->state : ModelState::unloaded)}};
  if (!entry || !entry->facts) return json;
  const ModelFacts& facts = *entry->facts;
  Json inputs = Json::array({"text"});
  if (facts.info.images) inputs.push_back("image");
  json["architecture"] = {{"input_modalities", std::move(inputs)},
                          {"output_modalities", Json::array({"text"})}};
  json["chat"] = facts.chat;
  json["defaults"] = defaults_json(facts.sampling);
  json["context_length"] = facts.info.context_length;
  json["pinned"] = entry->keep.pinned;
  json["unload_after_s"] = entry->unload_after_s() > 0 ? Json(entry->unload_after_s()) : Json();
  json["weight_bytes"] = entry->bytes;
  return json;
}

ModelActions::ModelActions(ModelPool& pool, Post post, int64_t created)
    : pool_(pool),
      post_(std::move(post)),
      created_(created),
      workers_(std::make_unique<WorkerPool>(PoolLimits{.name = "downloads", .background = true})) {}

ModelActions::~ModelActions() {
  cancel_all();
  workers_.reset();
}

void ModelActions::start(ModelAction action, const HttpRequest& request,
                         std::shared_ptr<ResponseStream> out) {
  const bool ollama = action == ModelAction::ollama_pull;
  const auto refuse = [&](const ApiError& error) {
    out->respond(ollama ? ollama_error_response(error) : error_response(error));
  };
  const auto parsed = parse_body(request.body);
  if (!parsed) return refuse(parsed.error());
  const Json& body = *parsed;
  JsonFields fields(body);
  const bool old_field = ollama && !fields.find("model") && fields.find("name");
  std::string name = fields.required_string(old_field ? "name" : "model");
  if (ollama && !pool_.source().find(name)) name = without_latest(name);
  if (!fields.error() && name.empty()) fields.fail("model", "invalid_value", "'model' is empty");
  if (fields.error()) return refuse(*fields.error());
  if (action == ModelAction::load) return load(body, std::move(out));
  if (action == ModelAction::unload) return unload(name, std::move(out));
  pull(body, name, ollama, std::move(out));
}

void ModelActions::load(const Json& body, std::shared_ptr<ResponseStream> out) {
  JsonFields fields(body);
  const auto pinned = fields.boolean("pin");
  const auto unload_after_s = fields.number("unload_after_s", 0, kMostSeconds);
  if (fields.error()) return out->respond(error_response(*fields.error()));
  pool_.load(*fields.string("model"), pinned, unload_after_s,
             [this, out](const ApiResult<ModelLease>& taken) {
               if (!taken) return out->respond(error_response(taken.error()));
               const std::string& name = (*taken)->name;
               out->respond(json_response(model_json(name, pool_.find_entry(name), created_)));
             });
}

void ModelActions::unload(const std::string& name, std::shared_ptr<ResponseStream> out) {
  pool_.unload(name, [name, out](const std::optional<ApiError>& error) {
    out->respond(error ? error_response(*error) : json_response({{"id", name}, {"state", "unloaded"}}));
  });
}

// ---- downloads

void ModelActions::pull(const Json& body, const std::string& name, bool ollama,
                        std::shared_ptr<ResponseStream> out) {
  JsonFields fields(body);
  Pull pull{std::move(out), fields.boolean("stream").value_or(true), ollama};
  if (!fields.error() && pulls_.size() >= kMostPulls)
    fields.fail(ApiError{429, "Too many models are being pulled", "", "too_many_pulls"});
  if (fields.error())
    return pull.out->respond(ollama ? ollama_error_response(*fields.error())
                                    : error_response(*fields.error()));
  pull.out->on_client_left([cancelled = pull.cancelled] { *cancelled = true; });
  if (pull.streams && ollama) {
    pull.out->start("application/x-ndjson", " ");
    pull.out->write(line_of({{"status", "pulling manifest"}}));
  } else if (pull.streams) {
    pull.out->start("text/event-stream; charset=utf-8", kHeartbeat);
  }
  const uint64_t key = next_key_++;
  pulls_[key] = std::move(pull);
  run_pull(key, name);
}

void ModelActions::run_pull(uint64_t key, const std::string& name) {
  workers_->submit([this, key, name, cancelled = pulls_[key].cancelled, post = post_,
                    pull = pool_.source().pull] {
    double reported = 0;
    const auto report = [&](const PullState& state) {
      if (const double now = now_seconds(); now - reported >= kSecondsBetweenReports) {
        reported = now;
        post([this, key, state] { progress(key, state); });
      }
    };
    auto result = cancelled->load() ? Result<PulledModel>(make_error(ErrorKind::busy, "the client has left"))
                                    : pull(
                                          name, [&] { return cancelled->load(); }, report);
    post([this, key, result = std::move(result)] { finish(key, result); });
  });
}

void ModelActions::progress(uint64_t key, const PullState& state) {
  const Pull& pull = pulls_.at(key);
  if (!pull.streams) return;
  if (pull.ollama)
    return pull.out->write(
        line_of({{"status", "pulling files"}, {"total", state.total}, {"completed", state.done}}));
  pull.out->write(event_of({{"status", "downloading"},
                            {"completed_bytes", state.done},
                            {"total_bytes", state.total},
                            {"files", state.files}}));
}

void ModelActions::fail(const Pull& pull, const ApiError& error) const {
  if (!pull.streams)
    return pull.out->respond(pull.ollama ? ollama_error_response(error) : error_response(error));
  pull.out->write(pull.ollama ? line_of({{"error", error.message}}) : "data: " + error_json(error) + "\n\n");
  pull.out->finish(true);
}

void ModelActions::finish(uint64_t key, const Result<PulledModel>& result) {
  const Pull pull = std::move(pulls_.at(key));
  pulls_.erase(key);
  if (!result) {
    const ErrorKind kind = result.error().kind;
    ApiError error = result.error();
    error.status = kind == ErrorKind::not_found ? 404 : kind == ErrorKind::io ? 502 : error.status;
    error.code = "pull_failed";
    return fail(pull, error);
  }
  if (pull.ollama) {
    const Json done = {{"status", "success"}};
    if (!pull.streams) return pull.out->respond(json_response(done));
    pull.out->write(line_of(done));
    return pull.out->finish(false);
  }
  const Json done = {{"status", "success"},
                     {"model", result->name},
                     {"total_bytes", result->bytes},
                     {"downloaded_bytes", result->downloaded}};
  if (!pull.streams) return pull.out->respond(json_response(done));
  pull.out->write(event_of(done));
  pull.out->write(kDoneEvent);
  pull.out->finish(false);
}

void ModelActions::cancel_all() {
  for (auto& [key, pull] : pulls_) *pull.cancelled = true;
}

}  // namespace anabranch::server
