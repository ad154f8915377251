#include "server/api/compaction.h"

#include <algorithm>

#include "base/white_space.h"
#include "server/api/responses_format.h"

namespace anabranch::server {
namespace {

// Sealed before the summary, so that a sealed thought is no summary.
constexpr std::string_view kSealedKind = "compaction\n";
constexpr std::string_view kHeading = "[Summary of the conversation before this message]\n";
constexpr const char* kInstruction =
    "Summarize the conversation above, so that somebody who has not read it can go on with it. Say what the "
    "user wants, what was decided and done, which facts, names, numbers and files still matter, and what is "
    "left to do. Write only the summary.";

bool is_user(const Json& message) {
  return string_at(message, "role") == "user";
}

// The text of a message with or without images.
std::string text_in(const Json& message) {
  const Json& content = message["content"];
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) text += string_at(part, "text");
  return text;
}

}  // namespace

Json body_to_compact(const Json& body) {
  Json asked = {{"store", false}, {"truncation", "auto"}};
  for (const char* name :
       {"model", "input", "instructions", "previous_response_id", "conversation", "cache", "cache_salt",
        "priority", "id_slot", "prompt_cache_key", "service_tier", "timeout"})
    if (const auto given = body.find(name); given != body.end()) asked[name] = *given;
  return asked;
}

Json summary_instruction() {
  return {{"role", "user"}, {"content", kInstruction}};
}

Json ask_for_summary(ResponsesRequest& request, int context) {
  GenerationOptions& options = request.chat.options;
  options.max_tokens = context > 0 ? std::clamp(context / 4, 1, kSummaryTokens) : kSummaryTokens;
  options.thinking = {.mode = ThinkMode::off, .said_by = "a compaction does not think"};
  // Messages of stored answers come first, and have no items.
  const Json& messages = request.chat.messages;
  const auto earlier =
      std::ranges::count_if(messages, is_user) -
      std::ranges::count_if(request.added, [](const NewMessage& m) { return is_user(m.message); });
  Json items = Json::array();
  for (size_t i = 0; i < messages.size() && static_cast<std::ptrdiff_t>(items.size()) < earlier; ++i)
    if (is_user(messages[i]))
      items.push_back({{"type", "message"},
                       {"role", "user"},
                       {"content", Json::array({{{"type", "input_text"}, {"text", text_in(messages[i])}}})},
                       {"id", random_id("msg_")}});
  // The new summary contains that of earlier compactions.
  Json kept = Json::array();
  for (Json& item : items)
    if (!string_at(item["content"][0], "text").starts_with(kHeading)) kept.push_back(std::move(item));
  for (Json& item : request.input_items)
    if (string_at(item, "type") == "message" && is_user(item)) kept.push_back(std::move(item));
  for (Json& item : kept) {
    item["status"] = "completed";
    if (Json& content = item["content"]; content.is_string())
      content = Json::array({{{"type", "input_text"}, {"text", content}}});
  }
  return kept;
}

Json message_of_compaction(const Json& item, const Sealer& sealer) {
  const auto opened = sealer.open(string_at(item, "encrypted_content"));
  if (!opened || !opened->starts_with(kSealedKind))
    return {{"role", "user"}, {"content", "[an earlier part of the conversation: not shown]"}};
  return {{"role", "user"}, {"content", std::string(kHeading) + opened->substr(kSealedKind.size())}};
}

std::string CompactionWriter::begin(AnswerHead head, size_t) {
  head_ = std::move(head);
  return "";
}

std::string CompactionWriter::event(size_t, const OutputEvent& event, const std::string&,
                                    const TakeLogprobs&) {
  if (event.kind == OutputEvent::Kind::content) summary_ += event.text;
  return "";
}

std::string CompactionWriter::finish(const std::vector<AnswerEnd>&, const Usage& total) {
  const std::string sealed = context_->sealer.seal(std::string(kSealedKind) + std::string(trimmed(summary_)));
  output_.push_back({{"type", "compaction"}, {"id", random_id("cmp_")}, {"encrypted_content", sealed}});
  return dump_json({{"id", head_.id},
                    {"object", "response.compaction"},
                    {"created_at", head_.created},
                    {"output", output_},
                    {"usage", responses_usage(total)},
                    {"anabranch", extension(head_, total)}});
}

}  // namespace anabranch::server
