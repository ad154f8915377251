#include "server/api/field_names.h"

#include <simdjson.h>

#include <algorithm>
#include <sstream>

#include "base/nearest.h"
#include "base/outside_text.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostShown = 16, kMostBytes = 64;

// Fields that every API here reads beside its own.
constexpr const char* kOwn =
    "break_loops cache cache_salt chat_template_kwargs enable_thinking frequency_penalty ignore_eos "
    "logit_bias lora max_thinking_tokens min_p model num_draft_tokens presence_penalty priority "
    "reasoning_effort seed speculation stream temperature thinking_budget thinking_budget_tokens "
    "thinking_token_budget reasoning_budget timeout top_k top_p";
// Fields that every API of answers reads, Ollama's among its options (sampler_fields.h).
constexpr const char* kSamplers =
    "allowed_token_ids bad_words dry_allowed_length dry_base dry_multiplier dry_penalty_last_n "
    "dry_sequence_breakers dynatemp_exponent dynatemp_range frequency_context_size "
    "include_stop_str_in_output logits_processors min_new_tokens min_tokens mirostat mirostat_eta "
    "mirostat_mode mirostat_tau nsigma presence_context_size repeat_last_n repeat_penalty "
    "repetition_context_size repetition_penalty stop_regex stop_token_ids tfs_z top_a top_n_sigma typ_p "
    "typical_p use_beam_search xtc_probability xtc_threshold";
// Fields for the format of the answer, as vLLM, llama-server and mlx_lm.server name them.
constexpr const char* kForms =
    "grammar grammar_lazy grammar_triggers guided_choice guided_decoding_backend guided_grammar "
    "guided_json guided_regex guided_whitespace_pattern json_schema response_format structured_outputs";
constexpr const char* kOpenAi =
    "adapters add_generation_prompt audio id_slot best_of continue_final_message draft_model echo "
    "function_call "
    "functions kv_transfer_params logprobs max_completion_tokens max_tokens messages metadata modalities "
    "n parallel_tool_calls prediction prompt prompt_cache_key reasoning return_progress role_mapping "
    "safety_identifier service_tier stop store stream_options suffix think thinking tool_choice tools "
    "top_logprobs user verbosity web_search_options prompt_cache_retention "
    "moderation prompt_cache_options";
constexpr const char* kGenerate =
    "best_of echo id_slot max_tokens logprobs n prompt prompt_token_ids request_id stop suffix top_logprobs";
constexpr const char* kResponses =
    "background context_management conversation id_slot include input instructions max_output_tokens "
    "max_tool_calls metadata parallel_tool_calls previous_response_id prompt prompt_cache_key "
    "prompt_cache_retention reasoning safety_identifier service_tier store stream_options text "
    "tool_choice tools top_logprobs truncation user client_metadata access_programs background_options image "
    "moderation prompt_cache_options";
constexpr const char* kAnthropic =
    "container context_management id_slot inference_geo max_tokens mcp_servers messages metadata "
    "output_config "
    "output_format service_tier speed stop_sequences system thinking tool_choice tools betas "
    "billing_policy cache_control compaction diagnostics fallback_credit_token fallbacks thread "
    "user_profile_id workspace_id";
constexpr const char* kOllama =
    "content context format images input keep_alive logprobs messages options prompt raw suffix system "
    "template think tools top_logprobs truncate dimensions height steps width";
constexpr const char* kOllamaOptions =
    "draft_num_predict embedding_only f16_kv frequency_penalty logits_all low_vram main_gpu min_p num_batch "
    "num_ctx "
    "num_gpu num_keep num_predict num_thread numa penalize_newline presence_penalty seed stop temperature "
    "top_k top_p use_mlock use_mmap vocab_only";
constexpr const char* kLlama =
    "add_special cache_prompt content id_slot input_extra input_prefix input_suffix messages "
    "max_tokens min_keep n_cmpl n_discard n_indent n_keep n_predict n_probs parse_special "
    "post_sampling_probs prompt response_fields return_progress return_tokens samplers stop "
    "t_max_predict_ms timings_per_token tokens tools with_pieces logprobs reasoning_format tool_choice "
    "add_generation_prompt add_special_tokens return_token_strs continue_final_message";
constexpr const char* kEmbedding =
    "content dimensions documents encoding_format input instruction query return_documents return_text "
    "text texts top_n truncate user raw_scores normalize embd_normalize";
// Fields of other servers that look misspelt but are not.
constexpr const char* kElsewhere =
    "models top_n min_keep n_keep n_probs provider route plugin plugins transforms skip_special_tokens "
    "spaces_between_special_tokens length_penalty early_stopping min_k include_reasoning cache_control "
    "cache_prompt id_slot slot_id session_id truncate_prompt_tokens usage tool_stream";

using Names = std::vector<std::string>;

Names words_of(std::initializer_list<const char*> lists) {
  Names words;
  for (const char* list : lists) {
    std::istringstream text(list);
    for (std::string word; text >> word;) words.push_back(word);
  }
  return words;
}

}  // namespace

const Names& known_fields(AnswerKind kind) {
  static const Names openai = words_of({kOwn, kSamplers, kForms, kOpenAi}),
                     generate = words_of({kOwn, kSamplers, kForms, kGenerate}),
                     responses = words_of({kOwn, kSamplers, kForms, kResponses}),
                     anthropic = words_of({kOwn, kSamplers, kForms, kAnthropic}),
                     ollama = words_of({kOwn, kOllama}), embedding = words_of({kOwn, kEmbedding}),
                     llama = words_of({kOwn, kSamplers, kForms, kLlama});
  switch (kind) {
    case AnswerKind::chat:
    case AnswerKind::chat_count:
    case AnswerKind::completion:
      return openai;
    case AnswerKind::generate:
      return generate;
    case AnswerKind::response:
    case AnswerKind::input_count:
    case AnswerKind::compaction:
      return responses;
    case AnswerKind::message:
    case AnswerKind::token_count:
      return anthropic;
    case AnswerKind::ollama_chat:
    case AnswerKind::ollama_generate:
    case AnswerKind::ollama_embed:
    case AnswerKind::ollama_embedding:
      return ollama;
    case AnswerKind::embedding:
    case AnswerKind::rerank:
      return embedding;
    default:
      return llama;
  }
}

namespace {

bool refuses_unknown(AnswerKind kind) {
  switch (kind) {
    case AnswerKind::chat:
    case AnswerKind::completion:
    case AnswerKind::generate:
    case AnswerKind::response:
    case AnswerKind::compaction:
    case AnswerKind::message:
    case AnswerKind::embedding:
      return true;
    default:
      return false;
  }
}

// Allows one error in a short word and two in a long one, so that fields of other programs that are not in
// kElsewhere are not taken for misspelt ones.
bool is_misspelt(std::string_view name, std::string_view meant) {
  if (name.size() < 4) return false;
  return edit_distance(name, meant) <= (name.size() < 9 ? 1u : 2u);
}

std::string shown_in_header(std::string_view name) {
  std::string readable = shown(name, kMostBytes);
  for (char& c : readable)
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  return readable;
}

// Adds the unknown names of an object, each with `prefix` before it, until the list is full or the JSON is
// invalid.
void list_unknown(simdjson::ondemand::object& object, const Names& known, const std::string& prefix,
                  size_t& shown, UnknownFields& unknown) {
  static const Names elsewhere = words_of({kElsewhere}), options = words_of({kSamplers, kOllamaOptions});
  for (auto field : object) {
    std::string_view name;
    if (field.unescaped_key().get(name) != simdjson::SUCCESS) return;
    if (std::ranges::find(known, name) != known.end()) {
      simdjson::ondemand::object inner;
      if (name == "options" && field.value().get_object().get(inner) == simdjson::SUCCESS)
        list_unknown(inner, options, "options.", shown, unknown);
      continue;
    }
    if (shown == kMostShown) return;
    const std::string readable = prefix + shown_in_header(name);
    unknown.names += (shown++ ? ", " : "") + readable;
    if (!unknown.misspelt.empty()) continue;
    if (std::ranges::find(elsewhere, name) != elsewhere.end()) continue;
    const auto meant = nearest(name, known);
    if (!meant || !is_misspelt(name, *meant)) continue;
    unknown.misspelt = readable;
    unknown.meant = *meant;
  }
}

}  // namespace

UnknownFields find_unknown_fields(AnswerKind kind, std::string_view body) {
  return find_unknown_fields(kind, simdjson::padded_string(body));
}

UnknownFields find_unknown_fields(AnswerKind kind, const simdjson::padded_string& body) {
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::object object;
  UnknownFields unknown;
  if (parser.iterate(body).get(document) != simdjson::SUCCESS ||
      document.get_object().get(object) != simdjson::SUCCESS)
    return unknown;
  size_t shown = 0;
  list_unknown(object, known_fields(kind), "", shown, unknown);
  return unknown;
}

std::optional<ApiError> refuse_misspelt(AnswerKind kind, const UnknownFields& unknown) {
  if (unknown.misspelt.empty() || !refuses_unknown(kind)) return std::nullopt;
  return ApiError{400, fmt::format("Unknown field '{}'; did you mean '{}'?", unknown.misspelt, unknown.meant),
                  unknown.misspelt, "unknown_parameter"};
}

}  // namespace anabranch::server
