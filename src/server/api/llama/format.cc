#include "server/api/llama/format.h"

#include "server/api/timings_json.h"

namespace anabranch::server {
namespace {

// Converts the output of LogprobsJson to "completion_probabilities".
void add_logprobs(Json& to, const Json& logprobs) {
  if (!logprobs.is_object()) return;
  for (const Json& token : logprobs["content"]) to.push_back(token);
}

// Whether the tokens' texts are the text.
bool spell(const Json& logprobs, const std::string& text) {
  std::string all;
  for (const Json& token : logprobs) all += string_at(token, "token");
  return all == text;
}

}  // namespace

std::string LlamaWriter::begin(AnswerHead head, size_t choices) {
  head_ = std::move(head);
  choices_.resize(choices);
  return "";
}

std::string LlamaWriter::started(const Usage& usage) {
  prompt_tokens_ = usage.prompt_tokens;
  return "";
}

std::string LlamaWriter::tokens(size_t choice, std::span<const int> tokens, const TakeLogprobs&) {
  Choice& c = choices_[choice];
  c.predicted += static_cast<int>(tokens.size());
  if (is_stream() || request_.return_tokens)
    for (const int id : tokens) c.tokens.push_back(id);
  return "";
}

Json LlamaWriter::part(size_t index, const std::string& text) const {
  const Choice& c = choices_[index];
  return {{"index", index},
          {"content", text},
          {"tokens", c.tokens},
          {"stop", false},
          {"id_slot", request_.slot},
          {"tokens_predicted", c.predicted},
          {"tokens_evaluated", prompt_tokens_}};
}

std::string LlamaWriter::prefilled(size_t choice, const Usage& usage, int read, double seconds) {
  if (!is_stream()) return "";
  Json json = part(choice, "");
  json["prompt_progress"] = progress_json(usage, read, seconds);
  return data_event(json);
}

std::string LlamaWriter::event(size_t choice, const OutputEvent& event, const std::string&,
                               const TakeLogprobs& logprobs) {
  Choice& c = choices_[choice];
  c.new_line = c.new_line || event.text.find('\n') != event.text.npos;
  add_logprobs(c.logprobs, logprobs());
  if (!is_stream()) {
    c.text += event.text;
    return "";
  }
  const Json probabilities = std::exchange(c.logprobs, Json::array()),
             ids = std::exchange(c.tokens, Json::array());
  // later: how many of the sampled tokens come in later parts.
  const auto write = [&](const std::string& text, const Json& tokens, const Json& some, size_t later) {
    Json json = part(choice, text);
    json["tokens"] = tokens;
    json["tokens_predicted"] = c.predicted - static_cast<int>(later);
    if (!some.empty()) json["completion_probabilities"] = some;
    return data_event(json);
  };
  if (probabilities.size() < 2 || probabilities.size() != ids.size() || !spell(probabilities, event.text))
    return write(event.text, ids, probabilities, 0);
  // Clients expect the probabilities of one token in a part: tokens that come at once (a draft's) are taken
  // apart.
  std::string out;
  for (size_t i = 0; i < ids.size(); i++)
    out += write(string_at(probabilities[i], "token"), Json::array({ids[i]}), Json::array({probabilities[i]}),
                 ids.size() - 1 - i);
  return out;
}

Json LlamaWriter::end_of(size_t index, const AnswerEnd& end) const {
  const Choice& c = choices_[index];
  Json json = part(index, c.text);
  json["stop"] = true;
  json["model"] = head_.model;
  json["generation_settings"] = request_.settings;
  json["prompt"] = prompts_[index];
  json["has_new_line"] = c.new_line;
  json["truncated"] = false;
  json["stop_type"] = !end.stop_sequence.empty()           ? "word"
                      : end.finish == FinishReason::length ? "limit"
                                                           : "eos";
  json["stopping_word"] = end.stop_sequence;
  json["tokens_cached"] = end.usage.cached_tokens;
  json["timings"] = timings_json(end.usage);
  if (!c.logprobs.empty()) json["completion_probabilities"] = c.logprobs;
  return json;
}

// "a/b" selects the member b of a; it is also the member's name in the answer.
Json LlamaWriter::chosen_fields(Json whole) const {
  if (request_.response_fields.empty()) return whole;
  Json out = Json::object();
  for (const std::string& name : request_.response_fields) {
    const size_t slash = name.find('/');
    const auto outer = whole.find(name.substr(0, slash));
    if (outer == whole.end()) continue;
    if (slash == name.npos) {
      out[name] = *outer;
    } else if (outer->is_object()) {
      if (const auto inner = outer->find(name.substr(slash + 1)); inner != outer->end()) out[name] = *inner;
    }
  }
  return out;
}

std::string LlamaWriter::choice_finished(size_t choice, const AnswerEnd& end, const TakeLogprobs& logprobs) {
  Choice& c = choices_[choice];
  add_logprobs(c.logprobs, logprobs());
  Json last = chosen_fields(end_of(choice, end));
  if (is_stream()) return data_event(last);
  c.last = std::move(last);
  return "";
}

std::string LlamaWriter::finish(const std::vector<AnswerEnd>&, const Usage&) {
  if (is_stream()) return "";
  if (!request_.list) return dump_json(choices_.front().last);
  Json list = Json::array();
  for (Choice& c : choices_) list.push_back(std::move(c.last));
  return dump_json(list);
}

std::string LlamaWriter::failure(const ApiError& error) {
  return "data: " + error_json(error) + "\n\n";
}

}  // namespace anabranch::server
