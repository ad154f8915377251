#include "server/api/ollama/models.h"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/clock.h"
#include "server/api/ollama/format.h"

namespace anabranch::server {
namespace {

constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

// The "digest" of a model, which clients use as its identity: 64 hexadecimal digits, made from its name.
std::string digest_of(const std::string& name) {
  std::string text;
  for (const char* part : {"0", "1", "2", "3"})
    text += fmt::format("{:016x}", std::hash<std::string>()(name + part));
  return text;
}

// "146.2M", "34.7B"
std::string size_name(uint64_t parameters) {
  const auto count = static_cast<double>(parameters);
  return count >= 1e9 ? fmt::format("{:.1f}B", count / 1e9) : fmt::format("{:.1f}M", count / 1e6);
}

std::string bits_name(uint64_t bytes, uint64_t parameters) {
  if (parameters == 0) return "unknown";
  return fmt::format("{:.1f} bits", 8 * static_cast<double>(bytes) / static_cast<double>(parameters));
}

// The description of a model that was loaded, as far as it is known without its files.
ModelDescription description_of(const ModelFacts& facts) {
  const ModelInfo& info = facts.info;
  ModelDescription out{info.family, "", info.parameters, info.weight_bytes - info.mtp_bytes};
  out.layers = info.layers;
  out.hidden = info.hidden;
  return out;
}

// The description from the model's files, with what is known better since it was loaded. facts: null if it
// was not.
Result<ModelDescription> described(const ModelSource& source, const std::string& name,
                                   const ModelFacts* facts) {
  auto found = source.describe(name);
  if (!facts) return found;
  ModelDescription out = found ? *found : description_of(*facts);
  out.context_length = facts->info.context_length;
  out.images |= facts->info.images;
  out.embeddings |= facts->info.pooling && facts->info.pooling != Pooling::rank;
  return out;
}

Json details_json(const ModelDescription& model) {
  return {{"parent_model", ""},
          {"format", model.format},
          {"family", model.family},
          {"families", Json::array({model.family})},
          {"parameter_size", size_name(model.parameters)},
          {"quantization_level", bits_name(model.bytes, model.parameters)}};
}

Json listed_json(const std::string& name, const ModelDescription& model) {
  return {
      {"name", ollama_name(name)}, {"model", ollama_name(name)}, {"modified_at", rfc3339(model.modified_ns)},
      {"size", model.bytes},       {"digest", digest_of(name)},  {"details", details_json(model)}};
}

// The capabilities for which programs offer the model.
Json capabilities_of(const ModelDescription& model) {
  if (model.embeddings_only) return Json::array({"embedding"});
  Json capabilities = Json::array({"completion"});
  if (!model.chat_template.empty()) capabilities.push_back("tools");
  if (model.chat_template.find("enable_thinking") != std::string::npos) capabilities.push_back("thinking");
  if (model.images) capabilities.push_back("vision");
  if (model.embeddings) capabilities.push_back("embedding");
  return capabilities;
}

// name: as it was asked for. Programs show its last part, without the tag, to people.
Json shown_json(const std::string& name, const ModelDescription& model) {
  const std::string& family = model.family;
  const std::string base = name.substr(name.rfind('/') + 1);
  return {{"modelfile", ""},
          {"parameters", ""},
          {"template", model.chat_template},
          {"details", details_json(model)},
          {"model_info",
           {{"general.architecture", family},
            {"general.basename", base.substr(0, base.find(':'))},
            {"general.parameter_count", model.parameters},
            {family + ".context_length", model.context_length},
            {family + ".embedding_length", model.hidden},
            {family + ".block_count", model.layers}}},
          {"capabilities", capabilities_of(model)},
          {"modified_at", rfc3339(model.modified_ns)}};
}

}  // namespace

std::string ollama_name(const std::string& name) {
  const size_t base = name.rfind('/') + 1;
  return name.find(':', base) == name.npos ? name + std::string(kLatest) : name;
}

void OllamaModels::list(std::shared_ptr<ResponseStream> out) const {
  std::map<std::string, std::shared_ptr<const ModelFacts>> facts;
  for (const auto* entry : pool_.entries()) facts[entry->name] = entry->facts;
  std::set<std::string> names;
  for (const auto* entry : pool_.own_entries()) names.insert(entry->name);
  workers_.submit([out, names = std::move(names), facts = std::move(facts), source = pool_.source(),
                   owners = pool_.adapters().owners(), post = post_]() mutable {
    for (const std::string& name : source.list()) names.insert(name);
    Json models = Json::array();
    for (const std::string& name : names) {
      const auto model = described(source, name, facts[name].get());
      if (!model) continue;
      models.push_back(listed_json(name, *model));
      for (const auto& [adapter, owner] : owners) {
        if (owner != name) continue;
        models.push_back(listed_json(adapter, *model));
        models.back()["details"]["parent_model"] = ollama_name(name);
      }
    }
    post([out, body = Json{{"models", std::move(models)}}] { out->respond(json_response(body)); });
  });
}

void OllamaModels::show(const std::string& body, std::shared_ptr<ResponseStream> out) const {
  const auto parsed = parse_body(body);
  if (!parsed) return out->respond(ollama_error_response(parsed.error()));
  JsonFields fields(*parsed);
  const std::string* old_name = fields.string("name");
  const std::string wanted = fields.find("model") || !old_name ? fields.required_string("model") : *old_name;
  if (fields.error()) return out->respond(ollama_error_response(*fields.error()));
  const auto name = pool_.find(wanted);
  if (!name)
    return out->respond(
        ollama_error_response({404, fmt::format("model '{}' not found", wanted), "model", ""}));
  const auto* entry = pool_.find_entry(*name);
  workers_.submit([out, wanted, name = *name, facts = entry ? entry->facts : nullptr, source = pool_.source(),
                   post = post_] {
    auto answer = described(source, name, facts.get());
    post([out, wanted, answer = std::move(answer)] {
      out->respond(answer ? json_response(shown_json(wanted, *answer))
                          : ollama_error_response(answer.error()));
    });
  });
}

HttpResponse OllamaModels::loaded() const {
  constexpr int64_t kNever = 100LL * 365 * 24 * 3600;  // seconds from now
  Json models = Json::array();
  for (const auto* entry : pool_.entries()) {
    if (!entry->model) continue;
    const Engine& engine = *entry->model->engine;
    const ModelInfo& info = engine.info();
    const double idle_s = entry->leases > 0 ? 0 : now_seconds() - entry->last_used;
    const bool stays = entry->keep.pinned || entry->unload_after_s() <= 0;
    const auto left = static_cast<int64_t>(entry->unload_after_s() - idle_s);
    Json model = {{"name", ollama_name(entry->name)},
                  {"model", ollama_name(entry->name)},
                  {"size", info.weight_bytes},
                  {"digest", digest_of(entry->name)},
                  {"details", details_json(description_of(*entry->facts))},
                  {"size_vram", engine.device_memory() ? info.weight_bytes : 0},
                  {"context_length", info.context_length}};
    model["expires_at"] = rfc3339((unix_seconds() + (stays ? kNever : left)) * kNanosecondsPerSecond);
    models.push_back(std::move(model));
  }
  return json_response({{"models", std::move(models)}});
}

}  // namespace anabranch::server
