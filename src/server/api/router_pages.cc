#include "server/api/router_pages.h"

namespace anabranch::server {

Json router_model_json(const ServedModel& model) {
  const ModelInfo& info = model.engine->info();
  return {{"model_path", model.name},
          {"served_model_name", model.name},
          {"tokenizer_path", model.name},
          {"model_type", info.family},
          {"is_generation", true}};
}

Json router_server_json(const ServedModel& model) {
  const ModelInfo& info = model.engine->info();
  return {{"model_path", model.name},
          {"served_model_name", model.name},
          {"version", ANABRANCH_VERSION},
          {"context_length", info.context_length},
          {"max_running_requests", info.max_running},
          {"tp_size", 1},
          {"dp_size", 1}};
}

}  // namespace anabranch::server
