#include "server/api/router_pages.h"

namespace anabranch::server {

Json router_model_json(const ModelPool::Entry& entry) {
  const ModelInfo& info = entry.facts->info;
  return {{"model_path", entry.name},
          {"served_model_name", entry.name},
          {"tokenizer_path", entry.name},
          {"model_type", info.family},
          {"is_generation", true}};
}

Json router_server_json(const ModelPool::Entry& entry) {
  const ModelInfo& info = entry.facts->info;
  return {{"model_path", entry.name},
          {"served_model_name", entry.name},
          {"version", ANABRANCH_VERSION},
          {"context_length", info.context_length},
          {"max_running_requests", info.max_running},
          {"tp_size", 1},
          {"dp_size", 1}};
}

}  // namespace anabranch::server
