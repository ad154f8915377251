#include "cli/locate.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "base/lower_case.h"
#include "base/nearest.h"
#include "base/user_directory.h"
#include "checkpoint/checkpoint.h"
#include "cli/preflight.h"
#include "cli/print.h"
#include "cli/process.h"
#include "cli/pull_display.h"
#include "hub/address.h"
#include "hub/inventory.h"
#include "hub/other_stores.h"

namespace anabranch::cli {
namespace {

constexpr double kSecondsBetweenLines = 10;  // between lines of progress, if stderr is not a terminal

// While an object exists, Ctrl-C only sets flag(). When it is destroyed, a Ctrl-C that came meanwhile takes
// its usual effect. If SIGINT is ignored, as in a background job of a script, it stays ignored.
class HeldInterrupt {
 public:
  HeldInterrupt() {
    flag() = false;
    before_ = handle_signal(SIGINT, [](int) { flag() = true; });
  }
  ~HeldInterrupt() {
    ::sigaction(SIGINT, &before_, nullptr);
    if (!came()) return;
    say(stderr, "{}\n", hub::interrupted().message);
    std::raise(SIGINT);
  }
  bool came() const { return flag(); }

 private:
  static std::atomic<bool>& flag() {
    static std::atomic<bool> came{false};
    return came;
  }
  struct sigaction before_ {};
};

Result<std::string> pull_for_command(const hub::Settings& settings, const hub::ModelName& name,
                                     hub::Purpose purpose) {
  PullDisplay display(stderr, name.text(), kSecondsBetweenLines);
  const HeldInterrupt interrupt;
  const hub::Watcher watcher{[&](const std::string& sentence) { display.note(sentence); },
                             [&] { return interrupt.came(); }};
  const auto report = hub::pull(
      settings, name, purpose, watcher, [&](const auto& now) { display.progress(now); }, &inspector());
  display.clear();
  if (!report) return report.error();
  return report->path;
}

// Another stored model that can run, for a name without details whose first choice cannot run; nothing: there
// is none.
std::optional<std::string> another_stored(const hub::Store& store, const hub::ModelName& name,
                                          const std::string& first) {
  if (!name.quant.empty() || !name.file.empty()) return std::nullopt;
  const auto others = hub::stored_names(store, name);
  if (others.size() < 2) return std::nullopt;
  const std::string why = why_it_cannot_run(first);
  if (why.empty()) return std::nullopt;
  for (const hub::ModelName& other : others) {
    const auto path = hub::find_in_store(store, other, hub::Purpose::model);
    if (!path || *path == first || !why_it_cannot_run(*path).empty()) continue;
    log_warning("{} is taken: {}", other.text(), why);
    return *path;
  }
  return std::nullopt;
}

// "models/hybird" beside a folder models/ is a path, although it could be a name on the hub: somebody who
// mistypes a path should get an error before anything is sent over the network.
std::optional<Error> missing_path(const std::string& text) {
  const std::filesystem::path path(text);
  std::error_code code;
  if (path.parent_path().empty() || !std::filesystem::is_directory(path.parent_path(), code))
    return std::nullopt;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path(), code))
    names.push_back(entry.path().filename().string());
  const std::string meant = did_you_mean(path.filename().string(), names);
  return Error{ErrorKind::not_found,
               fmt::format("there is no {} in {}{} A model of the hub is hf.co/{}", path.filename().string(),
                           path.parent_path().string(), meant.empty() ? "." : meant, text)};
}

// Whether the typed text means this stored model: its whole name or the part after ORG/, in upper or lower
// case.
bool is_meant(const std::string& stored, const std::string& typed) {
  std::string name = lower_case(stored), wanted = lower_case(typed);
  if (wanted.ends_with(":latest")) wanted.resize(wanted.size() - std::string_view(":latest").size());
  if (name == wanted) return true;
  if (name.starts_with("ollama:")) return name.substr(std::string_view("ollama:").size()) == wanted;
  const std::string last = name.substr(name.find('/') + 1);
  return last == wanted || last.substr(0, last.find(':')) == wanted;
}

// The stored model that a short name means. Errors: not_found, invalid (it may mean several).
Result<std::string> locate_short(const std::string& typed) {
  TRY(const auto models, stored_models());
  std::vector<std::string> meant;
  for (const auto& model : models)
    if (model.problem.empty() && is_meant(model.name, typed) &&
        std::ranges::find(meant, model.name) == meant.end())
      meant.push_back(model.name);
  if (meant.empty()) return make_error(ErrorKind::not_found, "no stored model is named {}", typed);
  if (meant.size() > 1)
    return make_error(ErrorKind::invalid, "'{}' may be {}: give the whole name", typed,
                      fmt::join(meant, " or "));
  log_info("{} is {}", typed, meant.front());
  return locate_stored(meant.front());
}

// A model on this machine, by its name on the hub (nothing: the text is not such a name) or by a short name.
// Errors: not_found, and those of locate_short.
Result<std::string> locate_here(const std::optional<hub::ModelName>& name, const std::string& text,
                                hub::Purpose purpose) {
  Error missing{ErrorKind::not_found, ""};
  if (name) {
    TRY(const auto settings, hub::settings_from_environment());
    const hub::Store store(settings.cache);
    auto stored = hub::find_in_store(store, *name, purpose);
    if (stored && purpose == hub::Purpose::model)
      if (auto other = another_stored(store, *name, *stored)) return *other;
    if (stored) return stored;
    if (auto theirs = hub::find_lm_studio_model(hub::lm_studio_directories(), *name, purpose)) return theirs;
    missing.message = stored.error().message;  // whatever is wrong with it, a download repairs it
  }
  if (purpose != hub::Purpose::model) return missing;
  auto meant = locate_short(text);
  if (!meant && meant.error().kind == ErrorKind::not_found && name) return missing;
  return meant;
}

// Gets a model that is not on this machine. not_here: why it is not.
Result<std::string> fetch(const hub::ModelName& name, hub::Purpose purpose, IfMissing missing,
                          const Error& not_here) {
  TRY(const auto settings, hub::settings_from_environment());
  if (settings.offline)
    return make_error(ErrorKind::not_found, "{}, and HF_HUB_OFFLINE or --offline forbids to pull it",
                      not_here.message);
  if (missing == IfMissing::refuse)
    return make_error(ErrorKind::not_found, "{}: `anabranch pull {}` downloads it", not_here.message,
                      name.text());
  return pull_for_command(settings, name, purpose);
}

}  // namespace

void go_offline() {
  ::setenv("HF_HUB_OFFLINE", "1", 1);
}

Result<std::string> locate_stored(const std::string& name) {
  if (hub::is_ollama_name(name))
    return hub::find_ollama_model(hub::ollama_directories(), name, user_cache_directory() + "/ollama");
  const auto parsed = hub::parse_model_name(name);
  if (!parsed) return make_error(ErrorKind::not_found, "'{}' is no name of a stored model", name);
  TRY(const auto settings, hub::settings_from_environment());
  auto stored = hub::find_in_store(hub::Store(settings.cache), *parsed, hub::Purpose::model);
  if (stored) return stored;
  return hub::find_lm_studio_model(hub::lm_studio_directories(), *parsed, hub::Purpose::model);
}

Result<std::vector<hub::StoredModel>> stored_models() {
  TRY(const auto settings, hub::settings_from_environment());
  auto models = hub::list_store(hub::Store(settings.cache));
  for (auto& others :
       {hub::list_ollama(hub::ollama_directories()), hub::list_lm_studio(hub::lm_studio_directories())})
    models.insert(models.end(), others.begin(), others.end());
  return models;
}

std::optional<hub::StoredModel> model_of_clone() {
  const std::string path = "models/hybrid-146m";
  std::error_code code;
  if (!std::filesystem::exists(path + "/config.json", code)) return std::nullopt;
  hub::StoredModel model{.name = path, .path = path};
  for (const auto& file : std::filesystem::directory_iterator(path, code))
    if (file.path().extension() == ".safetensors") model.bytes += file.file_size(code);
  return model;
}

Result<std::string> locate_model(const std::string& path_or_name, hub::Purpose purpose, IfMissing missing) {
  std::error_code code;
  if (std::filesystem::exists(path_or_name, code)) return path_or_name;
  if (hub::is_ollama_name(path_or_name))
    return hub::find_ollama_model(hub::ollama_directories(), path_or_name,
                                  user_cache_directory() + "/ollama");
  const auto name = hub::parse_model_name(path_or_name);
  auto here = locate_here(name, path_or_name, purpose);
  if (here || here.error().kind != ErrorKind::not_found) return here;
  if (name)
    if (const auto typo = missing_path(path_or_name)) return *typo;
  const std::string no_path = Checkpoint::open(path_or_name).error().message;
  if (!name)
    return make_error(ErrorKind::not_found, "{}{} Models of the hub are named ORG/NAME (docs/models.md): {}",
                      no_path, no_path.ends_with('?') ? "" : ".", hub::advice_on(path_or_name));
  auto fetched = fetch(*name, purpose, missing, here.error());
  if (!fetched) return make_error(fetched.error().kind, "{}; and {}", fetched.error().message, no_path);
  return fetched;
}

}  // namespace anabranch::cli
