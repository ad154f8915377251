#include "server/api/llama/request.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <map>

#include "server/api/format_fields.h"
#include "server/api/infill_prompt.h"
#include "server/api/sampler_fields.h"
#include "tokenizer/utf8.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostPieces = 65536;  // of a prompt, and of a list of other files

// The fields of /completion and /infill.
constexpr FieldName kNames[] = {{"model", "model"},
                                {"temperature", "temperature"},
                                {"top_p", "top_p"},
                                {"top_k", "top_k"},
                                {"min_p", "min_p"},
                                {"seed", "seed"},
                                {"stop", "stop"},
                                {"max_tokens", "n_predict"},
                                {"max_tokens", "max_tokens"},
                                {"ignore_eos", "ignore_eos"},
                                {"id_slot", "id_slot"},
                                {"stream", "stream"},
                                {"presence_penalty", "presence_penalty"},
                                {"frequency_penalty", "frequency_penalty"},
                                {"grammar", "grammar"},
                                {"json_schema", "json_schema"},
                                {"logprobs", "n_probs"},
                                {"cache", "cache_prompt"},
                                {"speculation", "speculation"},
                                {"cache_salt", "cache_salt"},
                                {"lora", "lora"},
                                {"priority", "priority"},
                                {"timeout", "timeout"}};

// [[token or text, bias], ...] or {token or text: bias}. A text stands for each of its tokens, false for
// "never"; if a token has several biases, the last one counts.
void read_logit_bias(JsonFields& fields, RequestEncoder& texts, int vocab_size, SamplingParams& sampling) {
  constexpr double kMostBias = 100;
  const Json* value = fields.find("logit_bias");
  if (!value) return;
  Json pairs = Json::array();
  if (value->is_object())
    for (const auto& [key, bias] : value->items()) {
      unsigned id = 0;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      const bool number = error == std::errc() && end == key.data() + key.size();
      pairs.push_back({number ? Json(id) : Json(key), bias});
    }
  else
    pairs = *value;
  if (!pairs.is_array())
    return fields.fail("logit_bias", "invalid_type", "'logit_bias' must be an array of pairs, or an object");
  std::map<int, float> biases;
  for (const Json& pair : pairs) {
    const bool usable = pair.is_array() && pair.size() == 2 &&
                        (pair[0].is_string() || pair[0].is_number_unsigned()) &&
                        (pair[1].is_number() || pair[1] == false);
    if (!usable)
      return fields.fail("logit_bias", "invalid_value",
                         fmt::format("'logit_bias' has the entry {}, which is no pair of a token or a text "
                                     "and a number or false",
                                     pair.dump(-1, ' ', false, Json::error_handler_t::replace)));
    const auto bias = static_cast<float>(
        pair[1].is_number() ? std::clamp(pair[1].get<double>(), -kMostBias, kMostBias) : -kMostBias);
    if (pair[0].is_string()) {
      for (const int id : texts.encode(pair[0].get<std::string>(), true)) biases[id] = bias;
      continue;
    }
    const auto id = pair[0].get<uint64_t>();
    if (id >= static_cast<uint64_t>(vocab_size))
      return fields.fail("logit_bias", "invalid_value",
                         fmt::format("'logit_bias' names {}, which is no token id: they go from 0 to {}", id,
                                     vocab_size - 1));
    biases[static_cast<int>(id)] = bias;
  }
  sampling.logit_bias.assign(biases.begin(), biases.end());
}

// Refuses unsupported fields that would change the answer.
void refuse_what_is_not_built(JsonFields& fields) {
  fields.only("post_sampling_probs", {false}, "probabilities are reported as they are before sampling");
  fields.only("n_cmpl", {1}, "ask /v1/completions for several answers");
}

GenerationOptions read_options(JsonFields& fields, const Json& body, const RequestDefaults& defaults,
                               RequestEncoder& texts) {
  refuse_what_is_not_built(fields);
  JsonFields named(body, kNames);
  GenerationOptions options = read_common_options(named, fields, defaults);
  if (options.seed == static_cast<uint64_t>(-1)) options.seed.reset();
  options.format = read_response_format(named);
  read_stop(named, "stop", options.stop);
  if (const auto alternatives = named.integer("logprobs", 0, kMaxLogprobs); alternatives.value_or(0) > 0)
    options.logprobs = static_cast<int>(*alternatives);
  // -1: no limit. -2: up to the context, which is the same.
  if (const auto most = named.integer("max_tokens", -2, INT_MAX))
    options.max_tokens = std::max(-1, static_cast<int>(*most));
  if (named.error()) fields.fail(*named.error());
  check_min_tokens(fields, options);
  read_logit_bias(fields, texts, defaults.vocab_size, options.sampling);
  options.progress = fields.boolean("return_progress").value_or(false);
  return options;
}

// A text, {"prompt_string": text}, or a list of token ids and texts that are joined; a text that begins a
// prompt gets BOS before it, if the model uses that.
std::optional<std::vector<int>> prompt_ids(const Json& value, RequestEncoder& texts) {
  if (value.is_object()) {
    const auto it = value.find("prompt_string");
    if (it == value.end() || !it->is_string() || value.contains("multimodal_data")) return std::nullopt;
    return prompt_ids(*it, texts);
  }
  std::vector<int> ids;
  if (value.is_string()) {
    ids = texts.encode(value.get<std::string>(), true);
    add_leading_bos(texts.tokenizer(), ids);
    return ids;
  }
  if (!value.is_array() || value.size() > kMostPieces) return std::nullopt;
  for (const Json& piece : value) {
    if (piece.is_string()) {
      const auto more = texts.encode(piece.get<std::string>(), true, ids.size());
      ids.insert(ids.end(), more.begin(), more.end());
    } else if (piece.is_number_unsigned() && piece.get<uint64_t>() <= INT_MAX) {
      ids.push_back(piece.get<int>());
    } else {
      return std::nullopt;
    }
    if (&piece == &value.front() && piece.is_string()) add_leading_bos(texts.tokenizer(), ids);
  }
  return ids;
}

// Whether the value is a list of prompts: a list without any number in it.
bool is_list(const Json& prompt) {
  if (!prompt.is_array() || prompt.empty()) return false;
  for (const Json& one : prompt)
    if (one.is_number()) return false;
  return true;
}

std::vector<TextOrTokens> prompts_of(JsonFields& fields, RequestEncoder& texts, bool& list) {
  std::vector<TextOrTokens> out;
  const Json* prompt = fields.find("prompt");
  if (!prompt) {
    fields.fail("prompt", "missing_required_parameter", "'prompt' is missing");
    return out;
  }
  list = is_list(*prompt);
  const Json all = list ? *prompt : Json::array({*prompt});
  for (const Json& one : all) {
    auto ids = all.size() <= kMaxAnswers ? prompt_ids(one, texts) : std::nullopt;
    if (!ids) {
      fields.fail(
          "prompt", "invalid_value",
          fmt::format("'prompt' must be a text, a list of token ids and texts, or a list of at most {} "
                      "of these",
                      kMaxAnswers));
      return out;
    }
    out.emplace_back(std::move(*ids));
  }
  return out;
}

// The settings of the request, in llama-server's format.
Json settings_of(const GenerationOptions& options) {
  const SamplingParams& s = options.sampling;
  Json settings = {{"n_predict", options.max_tokens},
                   {"max_tokens", options.max_tokens},
                   {"seed", options.seed ? Json(*options.seed) : Json()},
                   {"temperature", s.temperature},
                   {"top_k", s.top_k},
                   {"top_p", s.top_p},
                   {"min_p", s.min_p},
                   {"repeat_penalty", s.repetition_penalty},
                   {"presence_penalty", s.presence_penalty},
                   {"frequency_penalty", s.frequency_penalty},
                   {"dry_sequence_breakers", s.dry.breakers},
                   {"n_probs", std::max(options.logprobs, 0)},
                   {"stop", options.stop},
                   {"min_tokens", options.min_tokens},
                   {"ignore_eos", options.ignore_eos},
                   {"stream", options.stream}};
  for (const SamplerField& field : sampler_fields())
    settings[field.name] = field.whole() ? Json(static_cast<int64_t>(field.get(s))) : Json(field.get(s));
  return settings;
}

// Reads the fields that only /completion and /infill have. completion.options must have been read.
void read_rest(JsonFields& fields, LlamaRequest& request) {
  request.return_tokens = fields.boolean("return_tokens").value_or(false);
  request.timings_per_token = fields.boolean("timings_per_token").value_or(false);
  if (const Json* names = fields.array("response_fields"))
    for (const Json& name : *names)
      if (name.is_string() && request.response_fields.size() < kMostPieces)
        request.response_fields.push_back(name.get<std::string>());
  request.settings = settings_of(request.completion.options);
  request.slot = request.completion.options.slot;
}

// "input_extra": [{"filename"?, "text"}]
std::vector<FileText> read_files(JsonFields& fields) {
  std::vector<FileText> files;
  const Json* list = fields.array("input_extra");
  if (!list) return files;
  for (size_t i = 0; i < list->size() && i < kMostPieces && !fields.error(); ++i) {
    const std::string where = fmt::format("input_extra[{}]", i);
    if (!(*list)[i].is_object()) {
      fields.fail(where, "invalid_type", fmt::format("'{}' must be an object", where));
      break;
    }
    JsonFields file((*list)[i], where + ".");
    const std::string* name = file.string("filename");
    files.push_back({name ? *name : "tmp", file.required_string("text")});
    if (file.error()) fields.fail(*file.error());
  }
  return files;
}

}  // namespace

ApiResult<LlamaRequest> parse_llama_request(std::string_view body, const RequestDefaults& defaults,
                                            RequestEncoder& texts) {
  TRY(const auto json, parse_body(body));
  JsonFields fields(json);
  LlamaRequest request;
  request.completion.options = read_options(fields, json, defaults, texts);
  request.completion.prompts = prompts_of(fields, texts, request.list);
  if (texts.stopped()) return texts.error("prompt");
  read_rest(fields, request);
  if (fields.error()) return *fields.error();
  return request;
}

ApiResult<LlamaRequest> parse_infill_request(std::string_view body, const RequestDefaults& defaults,
                                             RequestEncoder& texts) {
  TRY(auto json, parse_body(body));
  JsonFields fields(json);
  const std::string prefix = fields.required_string("input_prefix"),
                    suffix = fields.required_string("input_suffix");
  const std::string* begun = fields.string("prompt");
  const auto files = read_files(fields);
  LlamaRequest request;
  request.completion.options = read_options(fields, json, defaults, texts);
  read_rest(fields, request);
  if (fields.error()) return *fields.error();
  TRY(auto ids, infill_prompt(begun ? prefix + *begun : prefix, suffix, files, texts));
  request.completion.prompts.emplace_back(std::move(ids));
  return request;
}

namespace {

// The token's text, or its bytes where they are no text.
Json piece_of(const Tokenizer& tokenizer, int id) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  if (is_valid_utf8(bytes)) return bytes;
  Json piece = Json::array();
  for (const char c : bytes) piece.push_back(static_cast<uint8_t>(c));
  return piece;
}

}  // namespace

ApiResult<Json> vllm_tokens_json(const Json& body, const std::vector<int>& ids, const Tokenizer& tokenizer,
                                 int context) {
  JsonFields fields(body);
  const bool texts = fields.boolean("return_token_strs").value_or(false);
  if (fields.error()) return *fields.error();
  Json strings = texts ? Json::array() : Json();
  for (size_t i = 0; texts && i < ids.size(); ++i)
    strings.push_back(std::string(tokenizer.token_bytes(ids[i])));
  return Json{
      {"count", ids.size()}, {"max_model_len", context}, {"tokens", ids}, {"token_strs", std::move(strings)}};
}

ApiResult<Json> tokenize(const Json& body, RequestEncoder& texts, int context) {
  const Tokenizer& tokenizer = texts.tokenizer();
  JsonFields fields(body);
  const std::string *content = fields.string("content"), *prompt = fields.string("prompt");
  const bool vllm = !content;
  const bool bos = fields.boolean(vllm ? "add_special_tokens" : "add_special").value_or(vllm),
             special = fields.boolean("parse_special").value_or(true),
             pieces = fields.boolean("with_pieces").value_or(false);
  if (!content && !prompt)
    fields.fail("content", "missing_required_parameter",
                "a text is missing: send 'content', 'prompt' or 'messages'");
  if (fields.error()) return *fields.error();
  auto ids = texts.encode(vllm ? *prompt : *content, special);
  if (texts.stopped()) return texts.error(vllm ? "prompt" : "content");
  if (bos) add_leading_bos(tokenizer, ids);
  if (vllm) return vllm_tokens_json(body, ids, tokenizer, context);
  Json tokens = Json::array();
  for (const int id : ids)
    tokens.push_back(pieces ? Json{{"id", id}, {"piece", piece_of(tokenizer, id)}} : Json(id));
  return Json{{"tokens", std::move(tokens)}};
}

ApiResult<Json> detokenize(std::string_view body, const Tokenizer& tokenizer) {
  TRY(auto json, parse_body(body));
  JsonFields fields(json);
  std::vector<int> ids;
  if (const Json* tokens = fields.array("tokens"))
    for (const Json& token : *tokens) {
      const bool known =
          token.is_number_unsigned() && token.get<uint64_t>() < static_cast<uint64_t>(tokenizer.vocab_size());
      if (!known)
        return ApiError{
            400, fmt::format("'tokens' must be an array of ids from 0 to {}", tokenizer.vocab_size() - 1),
            "tokens", "invalid_value"};
      ids.push_back(token.get<int>());
    }
  if (fields.error()) return *fields.error();
  const std::string text = tokenizer.decode(ids, false);
  return Json{{"content", text}, {"prompt", text}};  // llama-server's field, and vLLM's
}

}  // namespace anabranch::server
