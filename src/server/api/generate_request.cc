#include "server/api/generate_request.h"

#include <climits>

#include "server/http/request_record.h"

namespace anabranch::server {
namespace {

constexpr size_t kMaxStopTokens = 256;

// Refuses fields that other routes take and that would change the answer here.
void refuse_what_needs_texts(JsonFields& fields) {
  constexpr const char* kWhy = "this route knows token ids only; /v1/completions takes it";
  for (const char* name : {"prompt", "stop", "response_format", "grammar", "json_schema", "suffix"})
    fields.only(name, {}, kWhy);
  for (const char* name : {"n", "best_of"}) fields.only(name, {1}, "a request has one answer");
  fields.only("echo", {false}, kWhy);
}

std::vector<int> read_ids(JsonFields& fields, const char* name, int vocab_size, size_t most) {
  std::vector<int> ids;
  const Json* list = fields.array(name);
  if (!list) return ids;
  if (list->size() > most) {
    fields.fail(name, "invalid_value",
                fmt::format("'{}' has {} entries, but at most {} are allowed", name, list->size(), most));
    return ids;
  }
  ids.reserve(list->size());
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& id = (*list)[i];
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocab_size)) {
      const auto where = fmt::format("{}[{}]", name, i);
      fields.fail(where, id.is_number() ? "invalid_value" : "invalid_type",
                  fmt::format("'{}' is {}, which is no token id: they go from 0 to {}", where,
                              id.is_number() ? id.dump() : json_type(id), vocab_size - 1));
      return ids;
    }
    ids.push_back(id.get<int>());
  }
  return ids;
}

void check_request_id(JsonFields& fields) {
  const std::string* id = fields.string("request_id");
  if (id && !is_request_id(*id))
    fields.fail("request_id", "invalid_value",
                "'request_id' must have 1 to 128 letters, digits and characters of -_.:+=@");
}

}  // namespace

ApiResult<CompletionRequest> parse_generate_request(std::string_view body, const RequestDefaults& defaults) {
  TRY(auto json, parse_body(body));
  JsonFields fields(json);
  CompletionRequest request;
  request.field = "prompt_token_ids";
  request.options = read_common_options(fields, defaults);
  refuse_what_needs_texts(fields);
  check_request_id(fields);
  request.options.logprobs = read_logprobs(fields, true);
  request.options.max_tokens = static_cast<int>(fields.integer("max_tokens", -1, INT_MAX).value_or(-1));
  request.options.count_thoughts = true;
  request.options.stop_tokens = read_ids(fields, "stop_token_ids", defaults.vocab_size, kMaxStopTokens);
  if (!fields.find("prompt_token_ids"))
    fields.fail("prompt_token_ids", "missing_required_parameter", "'prompt_token_ids' is missing");
  request.prompts.emplace_back(read_ids(fields, "prompt_token_ids", defaults.vocab_size, SIZE_MAX));
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace anabranch::server
