#include "server/api/model_pages.h"

#include <algorithm>

#include "server/api/anthropic/format.h"
#include "server/api/anthropic/models.h"
#include "server/api/model_actions.h"

namespace anabranch::server {

Json listed_json(const ModelPool& pool, const std::string& name, bool anthropic, int64_t created) {
  const auto to_json = anthropic ? anthropic_model : model_json;
  const auto model = pool.find_adapter(name) ? pool.adapters().model_of(name) : std::nullopt;
  if (!model) return to_json(name, pool.find_entry(name), created);
  Json json = to_json(name, pool.find_entry(*model), created);
  if (anthropic) return json;
  const auto& adapters = pool.adapters().of(*model);
  json["parent"] = *model;
  json["root"] = std::ranges::find(adapters, name, &ServedAdapter::name)->path;
  return json;
}

void ModelPages::list(bool anthropic, std::shared_ptr<ResponseStream> out) const {
  workers_.submit([this, anthropic, out, post = post_] {
    post([this, anthropic, out, here = pool_.source().list()] {
      std::vector<std::string> names;
      for (const auto* entry : pool_.own_entries()) names.push_back(entry->name);
      for (const std::string& name : here)
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      Json data = Json::array();
      for (const std::string& name : names) {
        data.push_back(listed_json(pool_, name, anthropic, created_));
        for (const ServedAdapter& adapter : pool_.adapters().of(name))
          data.push_back(listed_json(pool_, adapter.name, anthropic, created_));
      }
      out->respond(json_response(anthropic ? anthropic_models(std::move(data))
                                           : Json{{"object", "list"}, {"data", std::move(data)}}));
    });
  });
}

HttpResponse ModelPages::one(const std::string& id, bool anthropic) const {
  const auto adapter = pool_.find_adapter(id);
  if (const auto name = adapter ? adapter : pool_.find(id))
    return json_response(listed_json(pool_, *name, anthropic, created_));
  const ApiError error{404, fmt::format("There is no model '{}' here", id), "model", "model_not_found"};
  return anthropic ? message_error_response(error) : error_response(error);
}

}  // namespace anabranch::server
