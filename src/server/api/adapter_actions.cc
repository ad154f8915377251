#include "server/api/adapter_actions.h"

#include <utility>

#include "base/log.h"
#include "server/api/adapter_fields.h"
#include "server/api/adapter_path.h"
#include "server/api/json_fields.h"
#include "server/api/model_pages.h"

namespace anabranch::server {
namespace {

ApiError not_here(const std::string& name) {
  return {404, fmt::format("There is no adapter '{}' here: GET /v1/models lists those that are", name),
          "lora_name", "model_not_found"};
}

// Out of memory, a lost device and an engine that stops are not the adapter's faults: it may load later.
ApiError loading_failed(const Error& error) {
  ApiError answer = error;
  if (error.kind == ErrorKind::not_found) answer.status = 404;
  if (error.kind == ErrorKind::exhausted || error.kind == ErrorKind::busy) answer.status = 503;
  answer.code = error.kind == ErrorKind::busy ? "shutting_down" : "adapter_not_loaded";
  return answer;
}

}  // namespace

AdapterActions::AdapterActions(ModelPool& pool, Post post, int64_t created,
                               std::vector<std::string> directories)
    : pool_(pool),
      post_(std::move(post)),
      created_(created),
      directories_(std::move(directories)),
      workers_(std::make_unique<WorkerPool>(PoolLimits{.name = "adapter loader"})) {}

AdapterActions::~AdapterActions() {
  workers_.reset();
}

void AdapterActions::start(AdapterAction action, const std::string& body,
                           std::shared_ptr<ResponseStream> out) {
  if (action == AdapterAction::list) return out->respond(list());
  const auto respond = [&](const ApiResult<Json>& json) {
    out->respond(json ? json_response(*json) : error_response(json.error()));
  };
  if (action == AdapterAction::set_scales) return respond(set_scales(body));
  const auto parsed = parse_body(body);
  if (!parsed) return respond(parsed.error());
  if (action == AdapterAction::unload) return respond(unload(*parsed));
  if (const auto begun = load(*parsed, out); !begun) respond(begun.error());
}

// llama-server's format, and the names that requests may use.
HttpResponse AdapterActions::list() const {
  Json list = Json::array();
  if (const auto* main = pool_.main_entry())
    for (const ServedAdapter& adapter : pool_.adapters().of(main->name))
      list.push_back({{"id", adapter.id},
                      {"path", adapter.path},
                      {"scale", shortest(adapter.scale)},
                      {"name", adapter.name}});
  return json_response(list);
}

ApiResult<Json> AdapterActions::set_scales(const std::string& body) {
  const auto* main = pool_.main_entry();
  if (!main) return ApiError{404, "No model is loaded; requests load one", "", "model_not_loaded"};
  const auto json = parse_json(body);
  if (!json)
    return ApiError{400, "The request body is not JSON: " + json.error().message, "", "invalid_json"};
  TRY(const auto scales, read_adapter_scales(*json, "body", pool_.adapters().of(main->name)));
  pool_.adapters().set_scales(main->name, scales);
  return Json{{"success", true}};
}

ApiResult<Json> AdapterActions::unload(const Json& body) {
  JsonFields fields(body);
  const std::string name = fields.required_string("lora_name");
  if (fields.error()) return *fields.error();
  const auto model = pool_.adapters().model_of(name);
  if (!model) return not_here(name);
  pool_.adapters().remove(*model, name);
  log_info("adapter {} of {} is unloaded", name, *model);
  return Json{{"id", name}, {"state", "unloaded"}};
}

// ---- loading

ApiResult<void> AdapterActions::load(const Json& body, const std::shared_ptr<ResponseStream>& out) {
  JsonFields fields(body);
  Load load{fields.required_string("lora_name"), fields.required_string("lora_path"),
            fields.boolean("load_inplace").value_or(false), out};
  const std::string* model = fields.string("model");
  if (fields.error()) return *fields.error();
  if (directories_.empty())
    return ApiError{
        403,
        "Clients may load adapters only from directories that the operator names: start the server with "
        "--lora-dir DIR",
        "", "no_adapter_directories"};
  if (auto error = refusal(load)) return *error;
  const auto take = [this, load](const ApiResult<ModelLease>& taken) {
    if (!taken) return finish(load, "", taken.error());
    run(load, *taken);
  };
  loading_.insert(load.name);
  if (model)
    pool_.load(*model, std::nullopt, std::nullopt, take);
  else
    pool_.acquire("", take);
  return {};
}

// Why the name cannot be given to an adapter.
std::optional<ApiError> AdapterActions::refusal(const Load& load) const {
  const auto wrong = [&](const std::string& message) {
    return ApiError{400, message, "lora_name", "invalid_value"};
  };
  if (const std::string fault = fault_of_adapter_name(load.name); !fault.empty())
    return wrong(fmt::format("'lora_name' {}", fault));
  if (loading_.contains(load.name)) return wrong(fmt::format("The adapter '{}' is being loaded", load.name));
  if (loading_.size() >= kMostAdapters)
    return ApiError{429, "Too many adapters are being loaded", "", "too_many_adapters"};
  const auto owner = pool_.adapters().model_of(load.name);
  if (owner && !load.in_place)
    return wrong(
        fmt::format("There is an adapter '{}' already: unload it, or say \"load_inplace\": true", load.name));
  if (!owner && pool_.is_model(load.name))
    return wrong(fmt::format("There is a model '{}' already", load.name));
  return std::nullopt;
}

void AdapterActions::run(Load load, const ModelLease& model) {
  const auto owner = pool_.adapters().model_of(load.name);
  const auto refuse = [&](const ApiError& error) { finish(load, model->name, error); };
  if (owner && *owner != model->name)
    return refuse({400, fmt::format("The adapter '{}' belongs to the model '{}'", load.name, *owner),
                   "lora_name", "invalid_value"});
  if (!owner && pool_.adapters().of(model->name).size() + loading_.size() > kMostAdapters)
    return refuse({400,
                   fmt::format("The model has {} adapters, and may have no more: unload one",
                               pool_.adapters().of(model->name).size()),
                   "", "too_many_adapters"});
  // The lease keeps the model loaded until its adapter is known.
  workers_->submit([this, load, model, directories = directories_, post = post_] {
    auto loaded = std::make_shared<ApiResult<ServedAdapter>>([&]() -> ApiResult<ServedAdapter> {
      TRY(const std::string path, allowed_adapter_path(load.path, directories));
      auto adapters = load_adapters(*model->engine, {{load.name, path}});
      if (!adapters) return loading_failed(adapters.error());
      adapters->front().from_client = true;
      return std::move(adapters->front());
    }());
    post([this, load, model, loaded] { finish(load, model->name, std::move(*loaded)); });
  });
}

void AdapterActions::finish(const Load& load, const std::string& model, ApiResult<ServedAdapter> loaded) {
  loading_.erase(load.name);
  if (!loaded) return load.out->respond(error_response(loaded.error()));
  log_info("adapter {} of {} is loaded from {}", load.name, model, loaded->path);
  pool_.adapters().put(model, std::move(*loaded));
  load.out->respond(json_response(listed_json(pool_, load.name, false, created_)));
}

}  // namespace anabranch::server
