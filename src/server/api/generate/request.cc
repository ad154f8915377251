#include "server/api/generate/request.h"

#include <climits>

#include "server/api/sampler_fields.h"
#include "server/http/request_record.h"

namespace anabranch::server {
namespace {

// Refuses fields that other routes take and that would change the answer here.
void refuse_what_needs_texts(JsonFields& fields) {
  constexpr const char* kWhy = "this route knows token ids only; /v1/completions takes it";
  for (const char* name : {"prompt", "stop", "response_format", "grammar", "json_schema", "suffix"})
    fields.only(name, {}, kWhy);
  for (const char* name : {"n", "best_of"}) fields.only(name, {1}, "a request has one answer");
  for (const char* name : {"echo", "include_stop_str_in_output"}) fields.only(name, {false}, kWhy);
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
  request.options = read_common_options(fields, fields, defaults);
  refuse_what_needs_texts(fields);
  check_request_id(fields);
  request.options.logprobs = read_logprobs(fields, true);
  request.options.max_tokens = static_cast<int>(fields.integer("max_tokens", -1, INT_MAX).value_or(-1));
  request.options.bound = TokenBound::all;
  check_min_tokens(fields, request.options);
  if (!fields.find("prompt_token_ids"))
    fields.fail("prompt_token_ids", "missing_required_parameter", "'prompt_token_ids' is missing");
  request.prompts.emplace_back(read_token_ids(fields, "prompt_token_ids", defaults.vocab_size, SIZE_MAX));
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace anabranch::server
