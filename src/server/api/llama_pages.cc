#include "server/api/llama_pages.h"

namespace anabranch::server {
namespace {

std::string token_text(const Tokenizer& tokenizer, std::optional<int> id) {
  return id ? std::string(tokenizer.token_bytes(*id)) : std::string();
}

}  // namespace

Json props_json(const ServedModel& model) {
  const ModelInfo& info = model.engine->info();
  const SamplingParams& sampling = model.defaults.sampling;
  const Tokenizer& tokenizer = model.engine->tokenizer();
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
          {"model_alias", model.name},
          {"model_path", info.path},
          {"modalities", {{"vision", info.images}, {"audio", false}}},
          {"bos_token", token_text(tokenizer, tokenizer.bos())},
          {"eos_token", token_text(tokenizer, tokenizer.eos())},
          {"build_info", "anabranch-" ANABRANCH_VERSION}};
}

Json slots_json(const ServedModel& model) {
  const ModelInfo& info = model.engine->info();
  const int running = model.engine->stats().running;
  Json slots = Json::array();
  for (int i = 0; i < info.max_running; i++)
    slots.push_back({{"id", i}, {"n_ctx", info.context_length}, {"is_processing", i < running}});
  return slots;
}

}  // namespace anabranch::server
