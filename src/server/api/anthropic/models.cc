#include "server/api/anthropic/models.h"

#include "base/clock.h"

namespace anabranch::server {
namespace {

Json supported(bool is) {
  return {{"supported", is}};
}

Json capabilities_json(const ModelFacts& facts) {
  Json effort = supported(facts.thinks), thinking = supported(facts.thinks), server_tools = supported(false);
  for (const char* level : {"low", "medium", "high", "xhigh", "max"}) effort[level] = supported(facts.thinks);
  // A request may say any of these to any model.
  for (const char* type : {"adaptive", "between_tools", "disabled", "enabled"})
    thinking["types"][type] = supported(true);
  for (const char* tool : {"code_execution", "web_search"}) server_tools[tool] = supported(false);
  return {{"batch", supported(false)},
          {"citations", supported(false)},
          {"code_execution", supported(false)},
          {"context_management", supported(false)},
          {"effort", std::move(effort)},
          {"image_input", supported(facts.info.images)},
          {"pdf_input", supported(false)},
          {"server_tools", std::move(server_tools)},
          {"structured_outputs", supported(true)},
          {"thinking", std::move(thinking)}};
}

}  // namespace

Json anthropic_model(const std::string& name, const ModelPool::Entry* entry, int64_t created) {
  const ModelFacts* facts = entry ? entry->facts.get() : nullptr;
  const Json context = facts ? Json(facts->info.context_length) : Json();
  return {{"type", "model"},
          {"id", name},
          {"display_name", name},
          {"created_at", rfc3339(created * 1'000'000'000)},
          {"lifecycle", "active"},
          {"deprecated_at", nullptr},
          {"retires_at", nullptr},
          {"line", nullptr},
          {"max_input_tokens", context},
          {"max_tokens", context},
          {"capabilities", facts ? capabilities_json(*facts) : Json()}};
}

Json anthropic_models(Json models) {
  Json list = {{"has_more", false}};
  list["first_id"] = models.empty() ? Json() : models.front()["id"];
  list["last_id"] = models.empty() ? Json() : models.back()["id"];
  list["data"] = std::move(models);
  return list;
}

}  // namespace anabranch::server
