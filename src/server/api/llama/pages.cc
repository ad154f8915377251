#include "server/api/llama/pages.h"

namespace anabranch::server {

Json props_json(const ModelPool::Entry& entry) {
  const ModelInfo& info = entry.facts->info;
  const SamplingParams& sampling = entry.facts->sampling;
  return {{"default_generation_settings",
           {{"id", 0},
            {"n_ctx", info.context_length},
            {"params",
             {{"n_predict", -1},
              {"temperature", sampling.temperature},
              {"top_k", sampling.top_k},
              {"top_p", sampling.top_p},
              {"min_p", sampling.min_p},
              {"repeat_penalty", sampling.repetition_penalty},
              {"presence_penalty", sampling.presence_penalty},
              {"frequency_penalty", sampling.frequency_penalty}}}}},
          {"total_slots", info.max_running},
          {"model_alias", entry.name},
          {"model_path", info.path},
          {"modalities", {{"vision", info.images}, {"audio", false}}},
          {"bos_token", entry.facts->bos},
          {"eos_token", entry.facts->eos},
          {"is_sleeping", !entry.model},
          {"build_info", "anabranch-" ANABRANCH_VERSION}};
}

Json slots_json(const ModelPool::Entry& entry) {
  const ModelInfo& info = entry.facts->info;
  const int running = entry.model ? entry.model->engine->stats().running : 0;
  Json slots = Json::array();
  for (int i = 0; i < info.max_running; i++)
    slots.push_back({{"id", i}, {"n_ctx", info.context_length}, {"is_processing", i < running}});
  return slots;
}

Json tokenizer_json(const ModelFacts& facts, const std::string& chat_template) {
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {{"tokenizer_class", "anabranch"},
          {"model_max_length", facts.info.context_length},
          {"bos_token", or_null(facts.bos)},
          {"eos_token", or_null(facts.eos)},
          {"chat_template", or_null(chat_template)}};
}

}  // namespace anabranch::server
