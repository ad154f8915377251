#include "server/api/adapter_actions.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/log.h"
#include "server/api/adapter_fields.h"
#include "server/api/json_fields.h"
#include "server/api/model_pages.h"
#include "server/api/openai_format.h"

namespace anabranch::server {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPath = 4096;  // bytes
constexpr int kMostFiles = 1000;    // of an adapter's directory

// Whether the path is the directory or below it. Both are absolute, and have neither "." nor "..".
bool is_within(const fs::path& path, const fs::path& directory) {
  return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first == directory.end();
}

// Whether a file of this directory lies elsewhere.
bool leads_out(const fs::path& path, const fs::path& directory) {
  std::error_code failed;
  int files = 0;
  for (fs::directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed)) {
    if (++files > kMostFiles) return true;
    std::error_code dangles;
    const fs::path real = fs::canonical(it->path(), dangles);
    if (!dangles && !is_within(real, directory)) return true;
  }
  return false;
}

ApiError not_here(const std::string& name) {
  return {404, fmt::format("There is no adapter '{}' here: GET /v1/models lists those that are", name),
          "lora_name", "model_not_found"};
}

}  // namespace

ApiResult<std::string> allowed_adapter_path(const std::string& path,
                                            const std::vector<std::string>& directories) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (path.empty() || path.size() > kMostPath || std::ranges::any_of(path, is_control))
    return ApiError{
        400,
        fmt::format("'lora_path' must be a path of 1 to {} bytes, without control characters", kMostPath),
        "lora_path", "invalid_value"};
  const ApiError elsewhere{
      403,
      "'lora_path' must name an adapter in a directory of --lora-dir, without '..' and without "
      "links that lead out of it",
      "lora_path", "path_not_allowed"};
  const fs::path wanted(path);
  if (std::ranges::find(wanted, fs::path("..")) != wanted.end()) return elsewhere;
  ApiError error = elsewhere;
  for (const std::string& directory : directories) {
    std::error_code failed;
    const fs::path base = fs::canonical(directory, failed);
    if (failed) continue;
    const fs::path at = (wanted.is_absolute() ? wanted : base / wanted).lexically_normal();
    if (!is_within(at, base) && !is_within(at, fs::absolute(directory).lexically_normal())) continue;
    const fs::path real = fs::canonical(at, failed);
    if (!failed && is_within(real, base) && !leads_out(real, base)) return real.string();
    if (failed)
      error = {404, fmt::format("There is no adapter at '{}'", path), "lora_path", "adapter_not_found"};
  }
  return error;
}

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
      if (adapters) return std::move(adapters->front());
      ApiError error = adapters.error();
      if (adapters.error().kind == ErrorKind::not_found) error.status = 404;
      error.code = "adapter_not_loaded";
      return error;
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
