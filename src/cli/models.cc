// `ls`, `show` and `rm`: models on this machine, and what the hub says about one that is not.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "base/json.h"
#include "checkpoint/model_name.h"
#include "cli/confirm.h"
#include "cli/conversation.h"
#include "cli/locate.h"
#include "cli/model_summary.h"
#include "cli/preflight.h"
#include "cli/print.h"
#include "cli/reports.h"
#include "cli/text.h"
#include "hub/address.h"
#include "hub/inventory.h"
#include "hub/other_stores.h"
#include "hub/pull.h"
#include "ops/open.h"

namespace anabranch::cli {
namespace {

// ---- ls

struct Listed {
  hub::StoredModel model;
  std::string why_not;  // why it cannot run here; "": no known reason, or the model is incomplete
};

std::vector<Listed> look_at(const std::vector<hub::StoredModel>& models) {
  std::vector<Listed> out;
  for (const auto& model : models) {
    Listed listed{model, ""};
    // Ollama's models are opened through links whose names end in .gguf.
    const auto path = hub::is_ollama_name(model.name) ? locate_stored(model.name) : Result(model.path);
    if (model.problem.empty() && path) listed.why_not = why_it_cannot_run(*path);
    out.push_back(std::move(listed));
  }
  return out;
}

Json to_json(const Listed& listed) {
  const hub::StoredModel& model = listed.model;
  Json json = {{"name", model.name},
               {"store", model.store},
               {"format", model.format},
               {"bytes", model.bytes},
               {"modified", model.modified_ns / 1'000'000'000},
               {"path", model.path}};
  if (!model.commit.empty()) json["commit"] = model.commit;
  if (!model.problem.empty()) json["problem"] = model.problem;
  json["runs_here"] = model.problem.empty() && listed.why_not.empty();
  if (!listed.why_not.empty()) json["why_not"] = listed.why_not;
  return json;
}

void print_models(const std::vector<Listed>& models) {
  size_t name = 4, format = 6;
  uint64_t bytes = 0;
  for (const auto& [model, _] : models) {
    name = std::max(name, model.name.size());
    format = std::max(format, model.format.size());
    bytes += model.bytes;
  }
  say("{:<{}}  {:>9}  {:<{}}  {:<9}  {}\n", "name", name, "size", "format", format, "store", "modified");
  for (const auto& [model, why_not] : models) {
    say("{:<{}}  {:>9}  {:<{}}  {:<9}  {}\n", model.name, name, size_text(model.bytes), model.format, format,
        model.store, model.modified_ns == 0 ? "" : age_text(model.modified_ns));
    if (!model.problem.empty()) say("  cannot be used yet: {}\n", model.problem);
    if (!why_not.empty()) say("  cannot run here: {}\n", why_not);
  }
  say("{}, {}\n", count_text(models.size(), "model"), size_text(bytes));
}

Result<int> list(const ListOptions& options) {
  TRY(const auto models, stored_models());
  if (options.names) {
    for (const auto& model : models)
      if (model.problem.empty()) say("{}\n", model.name);
  } else if (options.json) {
    Json json = Json::array();
    for (const auto& listed : look_at(models)) json.push_back(to_json(listed));
    say_json(json, 2);
  } else if (models.empty()) {
    TRY(const auto settings, hub::settings_from_environment());
    say("no models in {}; `anabranch pull ORG/NAME` downloads one\n", settings.cache);
  } else {
    print_models(look_at(models));
  }
  return 0;
}

// ---- show

void print_report(Json report, bool as_json) {
  if (as_json) {
    say_json(report, 2);
    return;
  }
  if (report.contains("mb_by_type")) return say_lines(model_summary(report));
  const Json problems = report["problems"];
  report.erase("problems");
  print_table(report, "");
  say_lines(verdict(problems));
}

// Shows a model that can be opened.
Result<int> show_path(const ShowOptions& options, const std::string& path, Device& device) {
  auto opened = Checkpoint::open(path, Extent::headers);
  if (!opened && opened.error().kind == ErrorKind::unsupported) {
    print_report({{"name", model_name_of(path)}, {"path", path}, {"problems", {opened.error().message}}},
                 options.json);
    return 0;
  }
  TRY(const auto checkpoint, std::move(opened));
  Json report = {{"name", checkpoint->name()}};
  report.update(model_report(*checkpoint, device));
  print_report(report, options.json);
  return 0;
}

// Shows what the hub says about a model that is not stored.
Result<int> show_offer(const ShowOptions& options, const hub::ModelName& name, Device& device) {
  TRY(const auto settings, hub::settings_from_environment());
  catch_interrupts();
  const hub::Watcher watcher{[](const std::string& note) { say(stderr, "{}\n", note); },
                             [] { return interrupt_flag().load(); }};
  TRY(const auto offer, hub::look_up(settings, name, watcher, inspector()));
  const auto& repository = offer.repository;
  Json quants = Json::array();
  for (const std::string& quant : offer.quants) quants.push_back(quant);
  Json problems = Json::array();
  if (!offer.problem.empty()) problems.push_back(offer.problem);
  if (const auto problem = memory_problem(offer.bytes, device); !problem.empty()) problems.push_back(problem);
  const auto disk = hub::check_disk(hub::Store(settings.cache), offer.bytes, name);
  if (!disk) problems.push_back(disk.error().message);
  if (!offer.note.empty()) say(stderr, "{}\n", offer.note);
  Json report = {
      {"name", offer.name.text()},
      {"stored", false},
      {"page", settings.endpoint + "/" + name.repo},
      {"commit", repository.commit},
      {"gated", repository.gated},
      {"model_type", repository.model_type.empty() ? Json("unknown") : Json(repository.model_type)},
      {"parameters", repository.parameters == 0 ? Json("unknown") : Json(repository.parameters)}};
  if (!offer.instead.empty()) report["instead"] = offer.instead;
  if (repository.context > 0) report["context_length"] = repository.context;
  if (!quants.empty()) report["quantisations"] = quants;
  report["files"] = offer.files.size();
  report["file_mb"] = static_cast<double>(offer.bytes) / 1e6;
  report["problems"] = problems;
  print_report(report, options.json);
  return 0;
}

Result<int> show(const ShowOptions& options) {
  TRY(const auto device, ops::open_device({options.device}));
  const auto path = locate_model(options.model, hub::Purpose::model, IfMissing::refuse);
  if (path) return show_path(options, *path, *device);
  const auto name = hub::parse_model_name(options.model);
  TRY(const auto settings, hub::settings_from_environment());
  if (!name || settings.offline) return path.error();
  return show_offer(options, *name, *device);
}

// ---- rm

Result<int> remove(const RemoveOptions& options) {
  if (hub::is_ollama_name(options.model))
    return make_error(ErrorKind::unsupported, "{} belongs to Ollama: remove it with `ollama rm {}`",
                      options.model, options.model.substr(options.model.find(':') + 1));
  const auto name = hub::parse_model_name(options.model);
  std::error_code code;
  if (!name && std::filesystem::exists(options.model, code))
    return make_error(
        ErrorKind::invalid,
        "'{}' is no name of a stored model, but a path: rm removes what `anabranch ls` lists; remove "
        "other files yourself",
        options.model);
  if (!name)
    return make_error(ErrorKind::invalid, "'{}' is no name of a stored model: {}", options.model,
                      hub::advice_on(options.model));
  TRY(const auto settings, hub::settings_from_environment());
  const hub::Store store(settings.cache);
  const bool all_revisions = options.model.find('@') == std::string::npos;
  const auto removal = hub::plan_removal(store, *name, all_revisions);
  if (!removal && hub::find_lm_studio_model(hub::lm_studio_directories(), *name, hub::Purpose::model))
    return make_error(ErrorKind::unsupported, "{} belongs to LM Studio: remove it there", options.model);
  if (!removal) return removal.error();
  if (!options.yes) {
    TRY(const bool yes, confirmed(fmt::format("Remove {} ({}) from {}?", options.model,
                                              size_text(removal->bytes), store.root())));
    if (!yes) return 1;
  }
  TRY_VOID(hub::remove(*removal));
  say("{} removed: {} free\n", options.model, size_text(removal->bytes));
  return 0;
}

int status_of(const Result<int>& result) {
  return result ? *result : fail(result.error());
}

}  // namespace

int run_ls(const ListOptions& options) {
  return status_of(list(options));
}
int run_show(const ShowOptions& options) {
  return status_of(show(options));
}
int run_rm(const RemoveOptions& options) {
  return status_of(remove(options));
}

}  // namespace anabranch::cli
