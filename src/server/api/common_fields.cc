#include "server/api/common_fields.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>

#include "base/lower_case.h"
#include "server/api/adapter_fields.h"
#include "server/api/sampler_fields.h"
#include "server/api/thinking_fields.h"

namespace anabranch::server {
namespace {

constexpr size_t kMaxStops = 16;
constexpr size_t kMaxStopBytes = 4096;

void read_sampling(JsonFields& fields, GenerationOptions& options) {
  SamplingParams& sampling = options.sampling;
  if (auto v = fields.number("temperature", 0, 100)) sampling.temperature = static_cast<float>(*v);
  if (auto v = fields.number("top_p", 0, 1)) sampling.top_p = static_cast<float>(*v);
  if (auto v = fields.number("min_p", 0, 1)) sampling.min_p = static_cast<float>(*v);
  if (auto v = fields.integer("top_k", -1, INT_MAX)) sampling.top_k = std::max(0, static_cast<int>(*v));
  if (sampling.top_p <= 0) {  // keep the most likely token only
    sampling.top_p = 1;
    sampling.top_k = 1;
  }
  if (auto v = fields.integer("seed", INT64_MIN, INT64_MAX)) options.seed = static_cast<uint64_t>(*v);
}

void read_penalties(JsonFields& fields, SamplingParams& sampling) {
  if (auto v = fields.number("presence_penalty", -2, 2)) sampling.presence_penalty = static_cast<float>(*v);
  if (auto v = fields.number("frequency_penalty", -2, 2)) sampling.frequency_penalty = static_cast<float>(*v);
}

// Reads "logit_bias": {"token id": bias}.
void read_logit_bias(JsonFields& fields, int vocab_size, SamplingParams& sampling) {
  const Json* map = fields.object("logit_bias");
  if (!map) return;
  for (const auto& [key, value] : map->items()) {
    int id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocab_size)
      return fields.fail("logit_bias", "invalid_value",
                         fmt::format("'logit_bias' names {}, which is no token id: they go from 0 to {}",
                                     Json(key).dump(), vocab_size - 1));
    const double bias = value.is_number() ? value.get<double>() : NAN;
    if (!(bias >= -100 && bias <= 100))
      return fields.fail(
          fmt::format("logit_bias.{}", key), value.is_number() ? "invalid_value" : "invalid_type",
          fmt::format("'logit_bias.{}' must be a number between -100 and 100, not {}", key, value.dump()));
    for (const auto& other : sampling.logit_bias)
      if (other.first == id)  // "7" and "007"
        return fields.fail("logit_bias", "invalid_value",
                           fmt::format("'logit_bias' names token {} twice", id));
    sampling.logit_bias.emplace_back(id, static_cast<float>(bias));
  }
}

// "speculation": "auto", "off" or a draft source; or {"source": one of these, "depth": tokens to draft per
// round (with "auto": at most)}.
void read_speculation(JsonFields& fields, const std::vector<DraftSource>& sources,
                      std::optional<SpecMode>& mode) {
  const Json* value = fields.find("speculation");
  if (!value) return;
  const auto fail = [&](const std::string& message) {
    fields.fail("speculation", "invalid_value", "'speculation': " + message);
  };
  const Json object = value->is_object() ? *value : Json{{"source", *value}};
  JsonFields inner(object, "speculation.");
  const std::string* name = inner.string("source");
  const auto depth = inner.integer("depth", 1, kMaxDraft);
  if (inner.error()) return fields.fail(*inner.error());
  const auto parsed = parse_spec_mode(name ? *name : "auto", static_cast<int>(depth.value_or(0)));
  if (!parsed) return fail(parsed.error().message);
  mode = *parsed;
  if (mode->automatic || mode->source == DraftSource::none) return;
  if (std::find(sources.begin(), sources.end(), mode->source) == sources.end())
    fail(fmt::format("the model was not loaded with what \"{}\" needs", *name));
}

// mlx_lm.server's fields "draft_model" and "num_draft_tokens". There is at most one loaded draft model.
void read_draft_model(JsonFields& fields, const std::string& loaded, std::optional<SpecMode>& mode) {
  const std::string* name = fields.string("draft_model");
  if (name && *name != "default_model" && (loaded.empty() || *name != loaded))
    fields.fail("draft_model", "unsupported_value",
                fmt::format("'draft_model' is {}, but {}", Json(*name).dump(),
                            loaded.empty() ? "none is loaded (serve --draft)" : loaded + " is loaded"));
  const auto depth = fields.integer("num_draft_tokens", 0, INT_MAX);
  if (!depth || mode) return;
  mode = SpecMode{};
  mode->automatic = *depth > 0;
  mode->depth = static_cast<int>(std::min<int64_t>(*depth, kMaxDraft));
}

LoopRule read_loops(JsonFields& fields) {
  const Json* value = fields.find("break_loops");
  if (value && *value == "near") return LoopRule::near;
  if (value && !value->is_boolean())
    fields.fail("break_loops", "invalid_value", "'break_loops' must be true, false or \"near\"");
  return value && *value == false ? LoopRule::none : LoopRule::exact;
}

// space: see RequestDefaults.
void read_cache(JsonFields& fields, const std::string& space, GenerationOptions& options) {
  constexpr size_t kMaxSalt = 1024;
  options.cache = fields.boolean("cache").value_or(true);
  // JSON is UTF-8, which has no byte 0xFF: no client can send a salt that equals one made here.
  if (!space.empty()) options.cache_salt = fmt::format("\xff{}\xff", space);
  const std::string* salt = fields.string("cache_salt");
  if (!salt) return;
  if (salt->size() > kMaxSalt)
    fields.fail("cache_salt", "invalid_value",
                fmt::format("'cache_salt' has {} bytes, but may have {}", salt->size(), kMaxSalt));
  options.cache_salt += *salt;
}

}  // namespace

RequestDefaults request_defaults(const Engine& engine, const SamplingParams& sampling,
                                 const ThinkingWish& thinking) {
  const ModelInfo& info = engine.info();
  return {sampling, info.draft_sources, engine.tokenizer().vocab_size(),
          thinking, info.draft_model,   info.images,
          {}};
}

ApiResult<Json> parse_body(std::string_view body) {
  auto parsed = parse_json(body, {.bytes = body.size()});  // the HTTP server limits the body's size
  if (!parsed.ok())
    return ApiError{400, "The request body is not valid: " + parsed.error().message, "", "invalid_json"};
  if (!parsed.value().is_object())
    return ApiError{400,
                    fmt::format("The request body must be a JSON object, not {}", json_type(parsed.value())),
                    "", "invalid_type"};
  return std::move(parsed).value();
}

void check_timeout(JsonFields& fields) {
  constexpr double kLeast = 1e-3, kMost = 86400;
  fields.number("timeout", kLeast, kMost);
}

GenerationOptions read_common_options(JsonFields& fields, JsonFields& samplers,
                                      const RequestDefaults& defaults) {
  GenerationOptions options;
  options.sampling = defaults.sampling;
  fields.string("model");  // only checked: the model was chosen before (model_pool.h)
  read_sampling(fields, options);
  read_penalties(fields, options.sampling);
  read_samplers(samplers, defaults.vocab_size, options);
  if (samplers.error()) fields.fail(*samplers.error());
  read_logit_bias(fields, defaults.vocab_size, options.sampling);
  options.thinking = complete(read_thinking(fields), defaults.thinking);
  options.loops = read_loops(fields);
  read_speculation(fields, defaults.draft_sources, options.speculation);
  read_draft_model(fields, defaults.draft_model, options.speculation);
  options.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  options.priority = static_cast<int>(fields.integer("priority", INT_MIN, INT_MAX).value_or(0));
  check_timeout(fields);
  read_cache(fields, defaults.cache_space, options);
  apply_adapters(options, read_adapters(fields, defaults.adapters));
  // -1: any slot.
  options.slot = static_cast<int>(std::max<int64_t>(0, fields.integer("id_slot", -1, INT_MAX).value_or(0)));
  options.stream = fields.boolean("stream").value_or(false);
  return options;
}

// "logprobs" is a boolean with "top_logprobs" beside it (mlx_lm.server's default for that is -1: none). In
// text completions "logprobs" may also be the number of alternatives.
int read_logprobs(JsonFields& fields, bool chat) {
  const Json* value = fields.find("logprobs");
  if (!chat && value && !value->is_boolean())
    return static_cast<int>(fields.integer("logprobs", 0, kMaxLogprobs).value_or(-1));
  const bool wanted = fields.boolean("logprobs").value_or(false);
  const auto top = std::max<int64_t>(0, fields.integer("top_logprobs", -1, kMaxLogprobs).value_or(0));
  if (top > 0 && !wanted)
    fields.fail("top_logprobs", "invalid_value", "'top_logprobs' needs 'logprobs': true");
  return wanted ? static_cast<int>(top) : -1;
}

void read_stop(JsonFields& fields, const char* name, std::vector<std::string>& stop) {
  const Json* value = fields.find(name);
  if (!value) return;
  if (!value->is_string() && !value->is_array()) {
    fields.fail(name, "invalid_type",
                fmt::format("'{}' must be a string or an array of strings, not {}", fields.named(name),
                            json_type(*value)));
    return;
  }
  if (*value == "") return;
  const Json list = value->is_array() ? *value : Json::array({*value});
  if (list.size() > kMaxStops)
    fields.fail(name, "invalid_value",
                fmt::format("'{}' has {} entries, but at most {} are allowed", fields.named(name),
                            list.size(), kMaxStops));
  size_t index = 0;
  for (const Json& entry : list) {
    if (fields.error()) return;
    const std::string where = fmt::format("{}[{}]", name, index++);
    if (!entry.is_string()) {
      fields.fail(where, "invalid_type",
                  fmt::format("'{}' must be a string, not {}", fields.named(where), json_type(entry)));
      return;
    }
    const auto& text = entry.get_ref<const std::string&>();
    if (text.empty() || text.size() > kMaxStopBytes)
      fields.fail(where, "invalid_value",
                  fmt::format("'{}' has {} bytes, but must have 1 to {}", fields.named(where), text.size(),
                              kMaxStopBytes));
    stop.push_back(text);
  }
}

}  // namespace anabranch::server
