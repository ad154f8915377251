#include "server/api/llama_request.h"

#include <algorithm>
#include <charconv>
#include <climits>

#include "tokenizer/utf8.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostPieces = 65536;  // of a prompt, and of a list of other files

// llama-server's names that have another name here.
constexpr std::pair<const char*, const char*> kRenamed[] = {{"n_predict", "max_tokens"},
                                                            {"repeat_penalty", "repetition_penalty"},
                                                            {"repeat_last_n", "repetition_context_size"},
                                                            {"cache_prompt", "cache"},
                                                            {"n_probs", "logprobs"}};
constexpr const char* kSameNames[] = {"temperature",
                                      "top_p",
                                      "top_k",
                                      "min_p",
                                      "seed",
                                      "stop",
                                      "max_tokens",
                                      "ignore_eos",
                                      "stream",
                                      "presence_penalty",
                                      "frequency_penalty",
                                      "xtc_probability",
                                      "xtc_threshold",
                                      "grammar",
                                      "json_schema",
                                      "speculation",
                                      "cache_salt",
                                      "priority",
                                      "timeout",
                                      "model"};

// [[token or text, bias], ...], as OpenAI's object: a text stands for each of its tokens, false for "never".
Json logit_bias_object(JsonFields& fields, RequestEncoder& texts) {
  constexpr double kMostBias = 100;
  Json out = Json::object();
  const Json* value = fields.find("logit_bias");
  if (!value) return out;
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
  if (!pairs.is_array()) {
    fields.fail("logit_bias", "invalid_type", "'logit_bias' must be an array of pairs, or an object");
    return out;
  }
  for (const Json& pair : pairs) {
    const bool usable = pair.is_array() && pair.size() == 2 &&
                        (pair[0].is_string() || pair[0].is_number_unsigned()) &&
                        (pair[1].is_number() || pair[1] == false);
    if (!usable) {
      fields.fail("logit_bias", "invalid_value",
                  fmt::format("'logit_bias' has the entry {}, which is no pair of a token or a text and a "
                              "number or false",
                              pair.dump(-1, ' ', false, Json::error_handler_t::replace)));
      return out;
    }
    const double bias =
        pair[1].is_number() ? std::clamp(pair[1].get<double>(), -kMostBias, kMostBias) : -kMostBias;
    if (pair[0].is_string()) {
      for (const int id : texts.encode(pair[0].get<std::string>(), true)) out[std::to_string(id)] = bias;
    } else {
      out[pair[0].dump()] = bias;
    }
  }
  return out;
}

// What would change the answer and is not built.
void refuse_what_is_not_built(JsonFields& fields) {
  fields.only("mirostat", {0}, "mirostat is not built");
  for (const char* name : {"typical_p", "typ_p"})
    fields.only(name, {1, 1.0}, "typical sampling is not built");
  fields.only("dry_multiplier", {0, 0.0}, "DRY is not built");
  fields.only("dynatemp_range", {0, 0.0}, "dynamic temperature is not built");
  fields.only("post_sampling_probs", {false}, "probabilities are told as they are before sampling");
  fields.only("lora", {Json::array()}, "adapters are not built");
  fields.only("n_cmpl", {1}, "ask /v1/completions for several answers");
}

// The fields that /v1/completions takes, without "prompt".
Json completion_body(JsonFields& fields, RequestEncoder& texts) {
  refuse_what_is_not_built(fields);
  Json out = Json::object();
  for (const char* name : kSameNames)
    if (const Json* value = fields.find(name)) out[name] = *value;
  for (const auto& [theirs, ours] : kRenamed)
    if (const Json* value = fields.find(theirs)) out[ours] = *value;
  if (out.value("logprobs", Json()) == 0) out.erase("logprobs");
  if (out.value("seed", Json()) == -1) out.erase("seed");
  if (out.value("repetition_context_size", Json()) == -1) out["repetition_context_size"] = INT_MAX;
  if (out.value("max_tokens", Json()) == -2) out["max_tokens"] = -1;
  if (Json bias = logit_bias_object(fields, texts); !bias.empty()) out["logit_bias"] = std::move(bias);
  return out;
}

Json ids_json(const std::vector<int>& ids) {
  return std::vector<unsigned>(ids.begin(), ids.end());
}

// A text, {"prompt_string": text}, or a list of token ids and texts that are joined; a text that begins a
// prompt follows BOS, where the model has it so.
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

// Several prompts are a list without a number in it.
bool is_list(const Json& prompt) {
  if (!prompt.is_array() || prompt.empty()) return false;
  for (const Json& one : prompt)
    if (one.is_number()) return false;
  return true;
}

Json prompts_of(JsonFields& fields, RequestEncoder& texts, bool& list) {
  const Json* prompt = fields.find("prompt");
  if (!prompt) {
    fields.fail("prompt", "missing_required_parameter", "'prompt' is missing");
    return nullptr;
  }
  list = is_list(*prompt);
  const Json all = list ? *prompt : Json::array({*prompt});
  Json out = Json::array();
  for (const Json& one : all) {
    const auto ids = all.size() <= kMaxAnswers ? prompt_ids(one, texts) : std::nullopt;
    if (!ids) {
      fields.fail(
          "prompt", "invalid_value",
          fmt::format("'prompt' must be a text, a list of token ids and texts, or a list of at most {} "
                      "of these",
                      kMaxAnswers));
      return nullptr;
    }
    out.push_back(ids_json(*ids));
  }
  return out;
}

// What was asked for, as llama-server tells it.
Json settings_of(const GenerationOptions& options) {
  const SamplingParams& s = options.sampling;
  return {{"n_predict", options.max_tokens},
          {"max_tokens", options.max_tokens},
          {"seed", options.seed ? Json(*options.seed) : Json()},
          {"temperature", s.temperature},
          {"top_k", s.top_k},
          {"top_p", s.top_p},
          {"min_p", s.min_p},
          {"xtc_probability", s.xtc_probability},
          {"xtc_threshold", s.xtc_threshold},
          {"repeat_penalty", s.repetition_penalty},
          {"presence_penalty", s.presence_penalty},
          {"frequency_penalty", s.frequency_penalty},
          {"n_probs", std::max(options.logprobs, 0)},
          {"stop", options.stop},
          {"ignore_eos", options.ignore_eos},
          {"stream", options.stream}};
}

ApiResult<LlamaRequest> finish(JsonFields& fields, const Json& body, LlamaRequest request,
                               const RequestDefaults& defaults) {
  request.return_tokens = fields.boolean("return_tokens").value_or(false);
  request.timings_per_token = fields.boolean("timings_per_token").value_or(false);
  const bool progress = fields.boolean("return_progress").value_or(false);
  if (const Json* names = fields.array("response_fields"))
    for (const Json& name : *names)
      if (name.is_string() && request.response_fields.size() < kMostPieces)
        request.response_fields.push_back(name.get<std::string>());
  if (fields.error()) return *fields.error();
  TRY(request.completion, read_completion_request(body, defaults));
  request.completion.options.progress = progress;
  request.settings = settings_of(request.completion.options);
  return request;
}

std::optional<int> first_token(const Tokenizer& tokenizer, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto id = tokenizer.find(name)) return id;
  return std::nullopt;
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
  TRY(auto json, parse_body(body));
  JsonFields fields(json);
  LlamaRequest request;
  Json completion = completion_body(fields, texts);
  completion["prompt"] = prompts_of(fields, texts, request.list);
  if (texts.stopped()) return texts.error("prompt");
  return finish(fields, completion, std::move(request), defaults);
}

// The tokens' order is that of Qwen2.5-Coder's report (arXiv:2409.12186, section 3), which other families
// share.
ApiResult<std::vector<int>> infill_prompt(const std::string& prefix, const std::string& suffix,
                                          const std::vector<FileText>& extra, RequestEncoder& texts) {
  const Tokenizer& tokenizer = texts.tokenizer();
  const auto before = first_token(tokenizer, {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>",
                                              "<｜fim▁begin｜>", "<|code_prefix|>", "▁<PRE>", "<PRE>"});
  const auto after = first_token(tokenizer, {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>",
                                             "<｜fim▁hole｜>", "<|code_suffix|>", "▁<SUF>", "<SUF>"});
  const auto middle = first_token(tokenizer, {"<|fim_middle|>", "<fim_middle>", "<fim-middle>",
                                              "<｜fim▁end｜>", "<|code_middle|>", "▁<MID>", "<MID>"});
  if (!before || !after || !middle)
    return ApiError{400, "The model cannot fill in the middle: its tokenizer lacks the tokens for it", "",
                    "unsupported_value"};
  std::vector<int> ids;
  const auto add = [&](std::optional<int> mark, const std::string& text) {
    if (mark) ids.push_back(*mark);
    const auto more = texts.encode(text, false, ids.size());
    ids.insert(ids.end(), more.begin(), more.end());
  };
  if (const auto bos = leading_bos(tokenizer)) ids.push_back(*bos);
  if (!extra.empty()) {
    const auto file = first_token(tokenizer, {"<|file_sep|>", "<file_sep>"});
    if (const auto project = first_token(tokenizer, {"<|repo_name|>", "<repo_name>", "<reponame>"}))
      add(project, "myproject\n");
    for (const FileText& one : extra)
      add(file, file ? fmt::format("{}\n{}\n", one.name, one.text) : one.text + "\n");
    if (file) add(file, "filename\n");
  }
  add(before, prefix);
  add(after, suffix);
  ids.push_back(*middle);
  if (texts.stopped()) return texts.error("prompt");
  return ids;
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
  Json completion = completion_body(fields, texts);
  if (fields.error()) return *fields.error();
  TRY(auto ids, infill_prompt(begun ? prefix + *begun : prefix, suffix, files, texts));
  completion["prompt"] = ids_json(ids);
  return finish(fields, completion, std::move(request), defaults);
}

ApiResult<Json> tokenize(std::string_view body, RequestEncoder& texts) {
  const Tokenizer& tokenizer = texts.tokenizer();
  TRY(auto json, parse_body(body));
  JsonFields fields(json);
  const std::string* content = fields.string("content");
  const bool bos = fields.boolean("add_special").value_or(false),
             special = fields.boolean("parse_special").value_or(true),
             pieces = fields.boolean("with_pieces").value_or(false);
  if (fields.error()) return *fields.error();
  auto ids = texts.encode(content ? *content : "", special);
  if (texts.stopped()) return texts.error("content");
  if (bos) add_leading_bos(tokenizer, ids);
  Json tokens = Json::array();
  for (const int id : ids) {
    if (!pieces) {
      tokens.push_back(id);
      continue;
    }
    const std::string_view bytes = tokenizer.token_bytes(id);
    Json piece = Json::array();  // of bytes, where they are no text
    if (is_valid_utf8(bytes))
      piece = bytes;
    else
      for (const char c : bytes) piece.push_back(static_cast<uint8_t>(c));
    tokens.push_back({{"id", id}, {"piece", std::move(piece)}});
  }
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
  return Json{{"content", tokenizer.decode(ids, false)}};
}

}  // namespace anabranch::server
