#include "server/api/generate/format.h"

#include <algorithm>

namespace anabranch::server {

Json GenerateWriter::envelope(const char* object) const {
  return {{"id", head_.id}, {"object", object}, {"created", head_.created}, {"model", head_.model}};
}

std::string GenerateWriter::begin(AnswerHead head, size_t) {
  head_ = std::move(head);
  return "";
}

std::string GenerateWriter::tokens(size_t, std::span<const int> tokens, const TakeLogprobs& logprobs) {
  if (tokens.empty()) return "";
  if (!is_stream()) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    return "";
  }
  tokens_.assign(1, tokens.back());
  Json json = envelope("generate.chunk");
  json["token_ids"] = std::vector<int>(tokens.begin(), tokens.end());
  json["logprobs"] = logprobs();
  json["finish_reason"] = nullptr;
  return data_event(json);
}

void GenerateWriter::add_end(Json& to, const AnswerEnd& end) const {
  const bool stopped = end.finish == FinishReason::stop && !tokens_.empty() &&
                       std::ranges::find(stop_tokens_, tokens_.back()) != stop_tokens_.end();
  to["finish_reason"] = finish_name(end.finish, 0);
  to["stop_reason"] = stopped ? Json(tokens_.back()) : Json();
  const Usage& usage = end.usage;
  to["usage"] = {{"prompt_tokens", usage.prompt_tokens},
                 {"completion_tokens", usage.completion_tokens},
                 {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
                 {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

std::string GenerateWriter::choice_finished(size_t, const AnswerEnd& end, const TakeLogprobs& logprobs) {
  if (!is_stream()) {
    logprobs_ = logprobs();
    return "";
  }
  Json json = envelope("generate.chunk");
  json["token_ids"] = Json::array();
  json["logprobs"] = nullptr;
  add_end(json, end);
  return data_event(json);
}

std::string GenerateWriter::finish(const std::vector<AnswerEnd>& ends, const Usage&) {
  if (is_stream()) return std::string(kDoneEvent);
  Json json = envelope("generate");
  json["token_ids"] = tokens_;
  json["logprobs"] = std::move(logprobs_);
  add_end(json, ends.front());
  return dump_json(json);
}

std::string GenerateWriter::failure(const ApiError& error) {
  return "data: " + error_json(error) + "\n\n";
}

}  // namespace anabranch::server
