#include "server/api/sampler_fields.h"

#include <algorithm>
#include <climits>
#include <type_traits>

namespace anabranch::server {
namespace {

constexpr double kLeastPenalty = 0.01;  // logits stay far from overflow
constexpr size_t kMaxStopTokens = 256;
constexpr size_t kMaxBreakers = 64, kMaxBreakerBytes = 64;

using Value = std::variant<float*, int*>;

constexpr SamplerField kFields[] = {
    {"repetition_context_size", nullptr, 0, INT_MAX,
     [](SamplingParams& p) -> Value { return &p.repetition_window; }, nullptr},
    {"presence_context_size", nullptr, 0, INT_MAX,
     [](SamplingParams& p) -> Value { return &p.presence_window; }, nullptr},
    {"frequency_context_size", nullptr, 0, INT_MAX,
     [](SamplingParams& p) -> Value { return &p.frequency_window; }, nullptr},
    {"xtc_probability", nullptr, 0, 1, [](SamplingParams& p) -> Value { return &p.xtc_probability; },
     "XTC: how often to leave out the likeliest tokens; 0 = off"},
    {"xtc_threshold", nullptr, 0, 1, [](SamplingParams& p) -> Value { return &p.xtc_threshold; },
     "XTC: leave out tokens at least this likely, except the last of them"},
    {"top_n_sigma", "nsigma", -1, 1000, [](SamplingParams& p) -> Value { return &p.top_n_sigma; },
     "Keep tokens whose logit is within this many standard deviations of the best; 0 = off"},
    {"typical_p", "typ_p", 0, 1, [](SamplingParams& p) -> Value { return &p.typical_p; },
     "Keep the most typical tokens up to this probability; 1 = off"},
    {"dynatemp_range", nullptr, 0, 100, [](SamplingParams& p) -> Value { return &p.dynatemp_range; },
     "Vary the temperature by this much, with the entropy; 0 = off"},
    {"dynatemp_exponent", nullptr, 0, 100, [](SamplingParams& p) -> Value { return &p.dynatemp_exponent; },
     "How the entropy becomes a temperature; 1 = in proportion"},
    {"mirostat", "mirostat_mode", 0, 2, [](SamplingParams& p) -> Value { return &p.mirostat; },
     "Mirostat 1 or 2 in place of the other filters; 0 = off"},
    {"mirostat_tau", nullptr, 0, 100, [](SamplingParams& p) -> Value { return &p.mirostat_tau; },
     "Mirostat: bits of surprise that tokens should have (default: 5)"},
    {"mirostat_eta", nullptr, 0, 100, [](SamplingParams& p) -> Value { return &p.mirostat_eta; },
     "Mirostat: how fast it learns (default: 0.1)"},
    {"dry_multiplier", nullptr, 0, 100, [](SamplingParams& p) -> Value { return &p.dry.multiplier; },
     "DRY: penalty of a token that lengthens a repetition; 0 = off"},
    {"dry_base", nullptr, 0, 100, [](SamplingParams& p) -> Value { return &p.dry.base; },
     "DRY: the penalty grows by this factor with each token (default: 1.75)"},
    {"dry_allowed_length", nullptr, 0, INT_MAX,
     [](SamplingParams& p) -> Value { return &p.dry.allowed_length; },
     "DRY: repetitions of fewer tokens cost nothing (default: 2)"},
    {"dry_penalty_last_n", nullptr, -1, INT_MAX, [](SamplingParams& p) -> Value { return &p.dry.window; },
     "DRY: look for repetitions in this many last tokens; -1 = all (the default), 0 = off"},
};

// The name under which the field was sent; the first one if it was not.
const char* sent_name(const JsonFields& fields, const char* name, const char* other) {
  return other && !fields.find(name) && fields.find(other) ? other : name;
}

// A repetition penalty of 0 turns it off, as in mlx_lm.server, and so does a window of 0 as in llama-server
// and Ollama, where -1 is the whole context.
void read_repetition_penalty(JsonFields& fields, SamplingParams& sampling) {
  const char* name = sent_name(fields, "repetition_penalty", "repeat_penalty");
  if (const auto v = fields.number(name, 0, 100)) {
    if (*v > 0 && *v < kLeastPenalty)
      fields.fail(name, "invalid_value",
                  fmt::format("'{}' is {}, but must be at least {} (or 0: none)", fields.named(name), *v,
                              kLeastPenalty));
    sampling.repetition_penalty = *v > 0 ? static_cast<float>(*v) : 1.0f;
  }
  if (const auto last = fields.integer("repeat_last_n", -1, INT_MAX)) {
    sampling.repetition_window = *last < 0 ? INT_MAX : static_cast<int>(*last);
    if (*last == 0) sampling.repetition_penalty = 1.0f;
  }
}

void read_breakers(JsonFields& fields, DryParams& dry) {
  constexpr const char* kName = "dry_sequence_breakers";
  const Json* list = fields.array(kName);
  if (!list) return;
  if (list->size() > kMaxBreakers)
    return fields.fail(kName, "invalid_value",
                       fmt::format("'{}' has {} entries, but at most {} are allowed", fields.named(kName),
                                   list->size(), kMaxBreakers));
  dry.breakers.clear();
  for (const Json& one : *list) {
    const std::string where = fmt::format("{}[{}]", kName, dry.breakers.size());
    const auto* text = one.get_ptr<const std::string*>();
    if (!text)
      return fields.fail(where, "invalid_type",
                         fmt::format("'{}' must be a string, not {}", fields.named(where), json_type(one)));
    if (text->empty() || text->size() > kMaxBreakerBytes)
      return fields.fail(where, "invalid_value",
                         fmt::format("'{}' has {} bytes, but must have 1 to {}", fields.named(where),
                                     text->size(), kMaxBreakerBytes));
    dry.breakers.push_back(*text);
  }
}

// Refuses fields of vLLM, llama-server and others that would change the answer.
void refuse_what_is_not_built(JsonFields& fields) {
  for (const char* name : {"allowed_token_ids", "bad_words"})
    fields.only(name, {Json::array()}, "use 'logit_bias'");
  fields.only("stop_regex", {Json::array(), ""}, "use 'stop'");
  fields.only("use_beam_search", {false}, "beam search is not built");
  fields.only("logits_processors", {Json::array()}, "the server runs no code of clients");
  fields.only("tfs_z", {1, 1.0}, "tail-free sampling is not built; 'typical_p' is akin to it");
  fields.only("top_a", {0, 0.0}, "it is not built; 'min_p' is akin to it");
}

}  // namespace

bool SamplerField::whole() const {
  static SamplingParams any;  // only for addresses within
  return std::holds_alternative<int*>(value(any));
}

double SamplerField::get(const SamplingParams& params) const {
  SamplingParams copy = params;
  return std::visit([](const auto* number) { return static_cast<double>(*number); }, value(copy));
}

void SamplerField::set(SamplingParams& params, double number) const {
  std::visit([&](auto* to) { *to = static_cast<std::remove_pointer_t<decltype(to)>>(number); },
             value(params));
  params.top_n_sigma = std::max(0.0f, params.top_n_sigma);
  if (params.typical_p <= 0) params.typical_p = 1;
  if (params.dry.base < 1) params.dry.base = DryParams().base;  // as in llama-server
}

std::span<const SamplerField> sampler_fields() {
  return kFields;
}

std::vector<int> read_token_ids(JsonFields& fields, const char* name, int vocab_size, size_t most) {
  std::vector<int> ids;
  const Json* list = fields.array(name);
  if (!list) return ids;
  if (list->size() > most) {
    fields.fail(name, "invalid_value",
                fmt::format("'{}' has {} entries, but at most {} are allowed", fields.named(name),
                            list->size(), most));
    return ids;
  }
  ids.reserve(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& id = (*list)[i];
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocab_size)) {
      const auto where = fmt::format("{}[{}]", name, i);
      fields.fail(where, id.is_number() ? "invalid_value" : "invalid_type",
                  fmt::format("'{}' is {}, which is no token id: they go from 0 to {}", fields.named(where),
                              id.is_number() ? id.dump() : json_type(id), vocab_size - 1));
      return ids;
    }
    ids.push_back(id.get<int>());
  }
  return ids;
}

void read_samplers(JsonFields& fields, int vocab_size, GenerationOptions& options) {
  SamplingParams& sampling = options.sampling;
  for (const SamplerField& field : kFields) {
    const char* name = sent_name(fields, field.name, field.other);
    if (field.whole()) {
      const auto number =
          fields.integer(name, static_cast<int64_t>(field.least), static_cast<int64_t>(field.most));
      if (number) field.set(sampling, static_cast<double>(*number));
    } else if (const auto number = fields.number(name, field.least, field.most)) {
      field.set(sampling, *number);
    }
  }
  read_repetition_penalty(fields, sampling);
  read_breakers(fields, sampling.dry);
  const char* least = sent_name(fields, "min_tokens", "min_new_tokens");
  options.min_tokens = static_cast<int>(fields.integer(least, 0, INT_MAX).value_or(0));
  options.stop_tokens = read_token_ids(fields, "stop_token_ids", vocab_size, kMaxStopTokens);
  options.keep_stop = fields.boolean("include_stop_str_in_output").value_or(false);
  refuse_what_is_not_built(fields);
}

void check_min_tokens(JsonFields& fields, const GenerationOptions& options) {
  if (options.max_tokens < 0 || options.min_tokens <= options.max_tokens) return;
  const char* name = sent_name(fields, "min_tokens", "min_new_tokens");
  fields.fail(name, "invalid_value",
              fmt::format("'{}' is {}, but the answer may have {} tokens at most", fields.named(name),
                          options.min_tokens, options.max_tokens));
}

}  // namespace anabranch::server
