#include "chat/logprobs_json.h"

#include <algorithm>

#include "base/check.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

// A token's text, or "bytes:\xe4\xbd" if the token is only a part of a character, as OpenAI writes it.
std::string token_text(const Tokenizer& tokenizer, int token) {
  const std::string_view bytes = tokenizer.token_bytes(token);
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string out = "bytes:";
  for (const char c : bytes) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  return out;
}

Json token_json(const Tokenizer& tokenizer, int token, float logprob) {
  Json bytes = Json::array();
  for (const char c : tokenizer.token_bytes(token)) bytes.push_back(static_cast<uint8_t>(c));
  return {{"id", token},
          {"token", token_text(tokenizer, token)},
          {"logprob", logprob},
          {"bytes", std::move(bytes)}};
}

size_t code_points(std::string_view utf8) {
  return std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

}  // namespace

void LogprobsJson::push(std::span<const int> tokens, std::span<const TokenLogprobs> logprobs) {
  CHECK(tokens.size() == logprobs.size(), "{} tokens, {} log probabilities", tokens.size(), logprobs.size());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
}

void LogprobsJson::push_prompt(std::span<const int> tokens, std::span<const TokenLogprobs> logprobs) {
  CHECK(tokens.size() == logprobs.size() + 1, "{} tokens, {} log probabilities", tokens.size(),
        logprobs.size());
  unknown_first_ = true;
  tokens_.assign(tokens.begin(), tokens.end());
  logprobs_.assign(1, {});
  logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.end());
}

Json LogprobsJson::take() {
  if (tokens_.empty()) return nullptr;
  Json out = format_ == LogprobsFormat::chat ? chat() : format_ == LogprobsFormat::ids ? ids() : completion();
  tokens_.clear();
  logprobs_.clear();
  unknown_first_ = false;
  return out;
}

Json LogprobsJson::chat() const {
  Json content = Json::array();
  for (size_t i = 0; i < tokens_.size(); i++) {
    Json entry = token_json(tokenizer_, tokens_[i], logprobs_[i].logprob);
    Json top = Json::array();
    for (const auto& t : logprobs_[i].top) top.push_back(token_json(tokenizer_, t.token, t.logprob));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json LogprobsJson::ids() const {
  Json list = Json::array();
  for (size_t i = 0; i < tokens_.size(); i++) {
    Json top = Json::array();
    for (const auto& t : logprobs_[i].top) top.push_back({{"token_id", t.token}, {"logprob", t.logprob}});
    list.push_back(
        {{"token_id", tokens_[i]}, {"logprob", logprobs_[i].logprob}, {"top_logprobs", std::move(top)}});
  }
  return list;
}

// The sampled token is always among the alternatives, so there may be one more than requested.
Json LogprobsJson::completion() {
  Json tokens = Json::array(), token_logprobs = Json::array(), top_logprobs = Json::array(),
       text_offset = Json::array();
  for (size_t i = 0; i < tokens_.size(); i++) {
    Json top = Json::object();
    for (const auto& t : logprobs_[i].top) top.emplace(token_text(tokenizer_, t.token), t.logprob);
    top.emplace(token_text(tokenizer_, tokens_[i]), logprobs_[i].logprob);
    const bool unknown = unknown_first_ && i == 0;
    tokens.push_back(token_text(tokenizer_, tokens_[i]));
    token_logprobs.push_back(unknown ? Json() : Json(logprobs_[i].logprob));
    top_logprobs.push_back(unknown ? Json() : std::move(top));
    text_offset.push_back(offset_);
    offset_ += code_points(text_.push(tokens_[i]));
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(token_logprobs)},
          {"top_logprobs", std::move(top_logprobs)},
          {"text_offset", std::move(text_offset)}};
}

}  // namespace anabranch
