#include "hub/selection.h"

#include <algorithm>

#include "base/json.h"
#include "hub/alternatives.h"

namespace anabranch::hub {
namespace {

constexpr int kMostLooks =
    3;  // number of alternatives to check; each check fetches the header of a weights file
constexpr size_t kMostSisters = 8;  // number of repositories to look up
constexpr const char* kAdapterConfig = "adapter_config.json";
constexpr uint64_t kAdapterConfigBytes = 1u << 20;

bool is_bare(const ModelName& name) {
  return name.quant.empty() && name.file.empty();
}

// The name of the chosen model.
ModelName name_of(const ModelFiles& choice, const std::vector<std::string>& paths, const ModelName& repo) {
  const auto models = gguf_models(paths);
  for (const GgufModel& model : models)
    if (model.files.front() == choice.main) return name_of_gguf(model, models, repo);
  return repo;
}

// A reason without the path of the file ("ORG/NAME/FILE: ..."), to compare reasons for different files.
std::string reason(std::string text, const std::string& repo) {
  const size_t at = text.find(repo), end = at == text.npos ? at : text.find(": ", at);
  return end == text.npos ? text : text.erase(at, end - at);
}

std::string advice(const std::string& instead) {
  return instead.empty() ? "" : fmt::format(". {0} can run here: `anabranch pull {0}`", instead);
}

}  // namespace

Error Selection::refusal() const {
  return make_error(ErrorKind::unsupported,
                    "{0} cannot run here, so it is not downloaded: {1}{2}. `anabranch pull --anyway {0}` "
                    "downloads it all the same",
                    name.text(), problem, advice(instead));
}

Selector::Selector(Api& api, const Inspector* inspector, const Repository& repository, const ModelName& name,
                   const ReadFile& read)
    : api_(api),
      inspector_(inspector),
      repository_(repository),
      name_(name),
      read_(read),
      paths_(paths_of(repository)) {}

Result<Selection> Selector::select(Purpose purpose) {
  const bool looks = inspector_ && purpose == Purpose::model;
  auto choice = choose_files(paths_, name_, purpose, read_);
  if (!choice && looks && choice.error().kind == ErrorKind::unsupported)
    return without_choice(choice.error());
  if (!choice) return choice.error();
  Selection out{.name = name_, .choice = std::move(*choice)};
  if (!looks) return out;
  out.inspection.emplace(api_, *inspector_, repository_, name_);
  const auto error = out.inspection->look_at(out.choice);
  if (!error) return out;
  out.problem = error->message;
  auto other = another_model(out);
  if (!other) {
    out.instead = find_instead(reason(out.problem, name_.repo));
    return out;
  }
  if (!is_bare(name_)) {
    out.instead = other->name.text();
    return out;
  }
  other->note = fmt::format("{} is taken: {}", other->name.text(), out.problem);
  return std::move(*other);
}

// Selects another model if no files could be the requested one.
Result<Selection> Selector::without_choice(const Error& why) {
  auto other = is_bare(name_) ? another_model({}) : std::nullopt;
  if (!other) return Error{why.kind, why.message + advice(find_instead(""))};
  other->note = fmt::format("{} is taken: {}", other->name.text(), why.message);
  return std::move(*other);
}

// Another model of the repository that can run here.
std::optional<Selection> Selector::another_model(const Selection& first) {
  for (const ModelName& name : names_of_models(paths_, name_)) {
    auto choice = choose_files(paths_, name, Purpose::model, read_);
    if (!choice || choice->main == first.choice.main) continue;
    if (looks_++ == kMostLooks) break;
    Selection other{.name = name, .choice = std::move(*choice)};
    other.inspection.emplace(api_, *inspector_, repository_, name_);
    const auto error = other.inspection->look_at(other.choice);
    if (!error) return other;
    if (reason(error->message, name_.repo) == reason(first.problem, name_.repo)) break;
  }
  return std::nullopt;
}

std::string Selector::find_instead(const std::string& why_not) {
  std::string base = repository_.base_model;
  if (base.empty() && std::ranges::find(paths_, kAdapterConfig) != paths_.end()) {
    const auto text = api_.part_of_file(name_, repository_.commit, kAdapterConfig, 0, kAdapterConfigBytes);
    const auto json = text ? parse_json(*text) : Result<Json>(Json());
    const auto name =
        parse_model_name(json && json->is_object() ? string_at(*json, "base_model_name_or_path") : "");
    if (name) base = name->repo;
  }
  looks_ = 0;
  for (const std::string& repo : sister_repositories(name_.repo, base, kMostSisters)) {
    if (looks_ == kMostLooks) break;
    bool same_reason = false;
    if (const auto name = sister(repo, why_not, same_reason); !name.empty()) return name;
    if (same_reason) break;
  }
  return "";
}

// A model of repository `repo` that can run here; "": none.
std::string Selector::sister(const std::string& repo, const std::string& why_not, bool& same_reason) {
  const auto name = parse_model_name(repo);
  const auto repository = name ? api_.find(*name) : std::nullopt;
  if (!repository || repository->gated) return "";
  const auto paths = paths_of(*repository);
  const auto choice = choose_files(paths, *name, Purpose::model, [&](const std::string& path) {
    return api_.file_text(*name, repository->commit, path);
  });
  if (!choice) return "";
  looks_++;
  const auto error = Inspection(api_, *inspector_, *repository, *name).look_at(*choice);
  same_reason = error && reason(error->message, name->repo) == why_not;
  return error ? "" : name_of(*choice, paths, *name).text();
}

}  // namespace anabranch::hub
