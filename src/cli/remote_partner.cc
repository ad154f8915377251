// `chat --url`: the other end is an OpenAI-compatible server, ours or another.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "base/clock.h"
#include "base/event_stream.h"
#include "cli/partner.h"
#include "cli/printer.h"
#include "cli/serve_options.h"
#include "cli/server_access.h"
#include "hub/http.h"
#include "net/http_text.h"

namespace anabranch::cli {
namespace {

constexpr int kSilenceSeconds = 600;  // a server may read a long prompt before its first byte
constexpr size_t kMaxAnswerBytes = 64 << 20;

// The base address of "/chat/completions": "localhost:8080" means "http://localhost:8080/v1".
Result<std::string> api_address(std::string url) {
  if (url.find("://") == url.npos) url = "http://" + url;
  while (url.ends_with('/')) url.pop_back();
  const std::string origin = net::origin_of(url);
  if ((!origin.starts_with("http://") && !origin.starts_with("https://")) ||
      url.find_first_of("?# ") != url.npos)
    return make_error(ErrorKind::invalid, "--url {} is no address: try http://127.0.0.1:{}", url,
                      server::ServerOptions().port);
  return url.ends_with("/v1") ? url : url + "/v1";
}

// The message of a server's error, in any of the formats that servers use.
std::string message_of(const std::string& body) {
  const auto json = parse_json(body);
  if (!json || !json->is_object()) return {};
  for (const char* key : {"error", "message", "detail"}) {
    const auto at = json->find(key);
    if (at == json->end()) continue;
    if (at->is_string()) return at->get<std::string>();
    if (std::string message = string_at(*at, "message"); !message.empty()) return message;
  }
  return {};
}

int count_at(const Json& object, const char* key) {
  const auto at = object.is_object() ? object.find(key) : object.end();
  return at != object.end() && at->is_number_integer() ? at->get<int>() : 0;
}

// The chunks of a streamed answer.
class AnswerReader {
 public:
  explicit AnswerReader(bool silent) : printer_(silent) {}
  void take(const std::string& data) {
    if (data == "[DONE]") {
      done_ = true;
      return;
    }
    const auto chunk = parse_json(data);
    if (!chunk || !chunk->is_object()) {
      error_ = "a part of the answer is no JSON";
      return;
    }
    if (chunk->contains("error")) {
      error_ = message_of(data);
      if (error_.empty()) error_ = "an error without a message";
      return;
    }
    if (const auto usage = chunk->find("usage"); usage != chunk->end() && usage->is_object())
      take_usage(*usage);
    if (const auto own = chunk->find("anabranch"); own != chunk->end())
      answer_.usage.cut = string_at(*own, "cut");
    const auto choices = chunk->find("choices");
    if (choices == chunk->end() || !choices->is_array() || choices->empty() || !choices->front().is_object())
      return;
    const Json& choice = choices->front();
    if (const auto delta = choice.find("delta"); delta != choice.end()) take_delta(*delta);
    if (const std::string reason = string_at(choice, "finish_reason"); !reason.empty()) {
      ended_ = true;
      answer_.finish = reason == "length" ? FinishReason::length : FinishReason::stop;
    }
  }
  bool too_long() const {
    return answer_.text.size() + answer_.reasoning.size() + call_bytes_ > kMaxAnswerBytes;
  }
  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  bool whole() const { return ended_ || done_; }

  Answer finish(double began, bool interrupted) {
    printer_.finish(answer_.calls.empty() || !answer_.text.empty());
    const double now = now_seconds();
    auto& usage = answer_.usage;
    usage.ttft_s = usage.prefill_s = (first_ > 0 ? first_ : now) - began;
    usage.decode_s = now - began - usage.ttft_s;
    if (interrupted) answer_.finish = FinishReason::cancelled;
    return std::move(answer_);
  }

 private:
  void take_usage(const Json& usage) {
    answer_.usage.prompt_tokens = count_at(usage, "prompt_tokens");
    answer_.usage.completion_tokens = count_at(usage, "completion_tokens");
    if (const auto details = usage.find("prompt_tokens_details"); details != usage.end())
      answer_.usage.cached_tokens = count_at(*details, "cached_tokens");
  }
  void take_delta(const Json& delta) {
    std::string thought = string_at(delta, "reasoning_content");
    if (thought.empty()) thought = string_at(delta, "reasoning");
    const std::string content = string_at(delta, "content");
    if (first_ == 0 && !(thought.empty() && content.empty())) first_ = now_seconds();
    printer_.reasoning(thought);
    printer_.content(content);
    answer_.reasoning += thought;
    answer_.text += content;
    if (const auto calls = delta.find("tool_calls"); calls != delta.end() && calls->is_array())
      for (const Json& piece : *calls) take_call(piece);
  }
  // A call comes in pieces with its index. The name comes once, the arguments in parts.
  void take_call(const Json& piece) {
    const auto function = piece.is_object() ? piece.find("function") : piece.end();
    const int index = count_at(piece, "index");
    if (function == piece.end() || index < 0 || index >= kMaxCalls) return;
    if (answer_.calls.size() <= static_cast<size_t>(index))
      answer_.calls.resize(static_cast<size_t>(index) + 1);
    ToolCall& call = answer_.calls[static_cast<size_t>(index)];
    call.name += string_at(*function, "name");
    call.arguments += string_at(*function, "arguments");
    call_bytes_ += string_at(*function, "arguments").size();
  }

  Printer printer_;
  Answer answer_;
  std::string error_;
  double first_ = 0;       // time of the first text
  size_t call_bytes_ = 0;  // bytes of arguments
  bool ended_ = false, done_ = false;
};

class RemotePartner : public Partner {
 public:
  RemotePartner(const ChatOptions& options, std::string address, std::string key)
      : options_(options),
        address_(std::move(address)),
        key_(std::move(key)),
        model_(options.engine.model_path) {
    settings_.stall_seconds = kSilenceSeconds;
    if (const char* file = std::getenv("SSL_CERT_FILE")) settings_.ca_file = file;
  }

  std::string name() const override { return fmt::format("{} at {}", model_, address_); }

  // Checks that the server answers, and gets its model's name if none was given.
  Result<void> connect() {
    auto request = request_for("/models");
    request.max_body = 8 << 20;
    const net::Response response = net::Transfers().wait_for(hub::transfer_of(request, settings_));
    if (!response.good()) return problem_of(response);
    const auto json = parse_json(response.body);
    if (!json || !json->is_object() || !json->contains("data") || !(*json)["data"].is_array())
      return make_error(ErrorKind::invalid, "{}/models answers with something else than a list of models",
                        address_);
    const Json& models = (*json)["data"];
    if (model_.empty() && !models.empty()) model_ = string_at(models.front(), "id");
    if (model_.empty())
      return make_error(ErrorKind::not_found, "the server at {} has no model yet: name one with --model",
                        address_);
    return {};
  }

  // Only the next answer shows whether the server knows the model: many servers load models when a request
  // names them.
  Result<void> change_model(const std::string& name) override {
    model_ = name;
    return {};
  }

  Result<Answer> answer(const Json& messages, const AnswerOptions& wanted,
                        const std::atomic<bool>& interrupt) override {
    AnswerReader reader(wanted.silent);
    int pieces = 0;  // most servers send a token in each
    EventStream events([&](const std::string& data) {
      if (!reader.failed()) reader.take(data);
      if (wanted.progress) wanted.progress(++pieces);
    });
    auto request = request_for("/chat/completions");
    request.body = dump_json(body_for(messages, wanted));
    request.on_body = [&](const net::Response&, std::string_view bytes) {
      return events.push(bytes) && !reader.failed() && !reader.too_long();
    };
    net::Transfer transfer = hub::transfer_of(std::move(request), settings_);
    transfer.stop = [&] { return interrupt.load(); };
    const double began = now_seconds();
    const net::Response response = net::Transfers().wait_for(std::move(transfer));
    const bool interrupted = response.end == net::End::stopped;
    Answer answer = reader.finish(began, interrupted);
    if (interrupted) return answer;
    if (reader.failed()) return make_error(ErrorKind::io, "{}: {}", address_, reader.error());
    if (reader.too_long()) return make_error(ErrorKind::exhausted, "{}: the answer is too long", address_);
    if (!response.good()) return problem_of(response);
    if (!reader.whole()) return make_error(ErrorKind::io, "{} ended in the middle of the answer", address_);
    return answer;
  }

 private:
  hub::HttpRequest request_for(const std::string& path) const {
    return {.url = address_ + path, .token = key_, .own_server = is_this_machine(address_)};
  }

  Error problem_of(const net::Response& response) const {
    if (response.status == 0)
      return {ErrorKind::not_found, fmt::format("no server answers at {}: {}", address_, response.problem)};
    if (!response.problem.empty() && response.status == 200)
      return {ErrorKind::io, fmt::format("{}: {}", address_, response.problem)};
    std::string message = message_of(response.body);
    if (message.empty()) message = "no message";
    if (response.status == 401)
      message += " (give its key with --api-key-file, or as ANABRANCH_API_KEY in the environment)";
    return {ErrorKind::invalid,
            fmt::format("{} answers with HTTP {}: {}", address_, response.status, message)};
  }

  // Sends only the options that the user set; the server chooses the others.
  Json body_for(const Json& messages, const AnswerOptions& wanted) const {
    const SamplingOptions& s = wanted.sampling ? *wanted.sampling : options_.sampling;
    Json body = {{"model", model_},
                 {"messages", messages},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}}};
    const auto set = [&](const char* name, const auto& value) {
      if (!value) return;
      if constexpr (std::is_same_v<decltype(*value), const float&>)
        body[name] = shortest(*value);
      else
        body[name] = *value;
    };
    set("temperature", s.temperature);
    set("top_p", s.top_p);
    set("top_k", s.top_k);
    set("min_p", s.min_p);
    set("repetition_penalty", s.repetition_penalty);
    set("presence_penalty", s.presence_penalty);
    set("frequency_penalty", s.frequency_penalty);
    for (const auto& [name, value] : s.others)
      if (value) body[name] = *value;
    if (!s.dry_sequence_breakers.empty()) body["dry_sequence_breakers"] = s.dry_sequence_breakers;
    if (s.min_tokens > 0) body["min_tokens"] = s.min_tokens;
    set("seed", s.seed);
    if (!wanted.tools.is_null()) body["tools"] = wanted.tools;
    if (!wanted.tools.is_null() && !wanted.may_call) body["tool_choice"] = "none";
    if (const int most = wanted.max_tokens.value_or(s.max_tokens); most >= 0) body["max_tokens"] = most;
    if (!s.stop.empty()) body["stop"] = s.stop;
    const ThinkFlags& thinking = wanted.thinking ? *wanted.thinking : options_.thinking;
    if (thinking.mode != "auto") body["chat_template_kwargs"] = {{"enable_thinking", thinking.mode == "on"}};
    set("max_thinking_tokens", thinking.max_tokens);
    return body;
  }

  ChatOptions options_;
  std::string address_, key_, model_;
  hub::Settings settings_;
};

}  // namespace

Result<std::unique_ptr<Partner>> connect_partner(const ChatOptions& options) {
  TRY(std::string address, api_address(options.url));
  TRY(std::string key, key_to_show(options.api_key_file));
  auto partner = std::make_unique<RemotePartner>(options, std::move(address), std::move(key));
  TRY_VOID(partner->connect());
  return std::unique_ptr<Partner>(std::move(partner));
}

}  // namespace anabranch::cli
