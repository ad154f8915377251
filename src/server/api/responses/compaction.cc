#include "server/api/responses/compaction.h"

#include <algorithm>

#include "base/white_space.h"
#include "server/api/responses/format.h"

namespace anabranch::server {
namespace {

constexpr std::string_view kKind = "compaction";  // see Sealer
constexpr std::string_view kHeading = "[Summary of the conversation before this message]\n";
constexpr const char* kInstruction =
    "Summarize the conversation above, so that somebody who has not read it can go on with it. Say what the "
    "user wants, what was decided and done, which facts, names, numbers and files still matter, and what is "
    "left to do. Write only the summary.";

bool is_user(const Json& message) {
  return string_at(message, "role") == "user";
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
  Json kept = Json::array();
  for (const Json& message : request.earlier_users)
    if (!is_summary(message))  // the new summary contains it
      kept.push_back({{"type", "message"},
                      {"role", "user"},
                      {"content", Json::array({{{"type", "input_text"}, {"text", message["content"]}}})},
                      {"id", random_id("msg_")}});
  for (Json& item : request.input_items)
    if (string_at(item, "type") == "message" && is_user(item)) kept.push_back(std::move(item));
  for (Json& item : kept) {
    item["status"] = "completed";
    if (Json& content = item["content"]; content.is_string())
      content = Json::array({{{"type", "input_text"}, {"text", content}}});
  }
  return kept;
}

Json message_of_compaction(const Json& item, const Sealer& sealer, const std::string& owner) {
  std::string sealed = string_at(item, "encrypted_content");
  const auto opened = sealer.open(sealed, kKind, owner);
  if (!opened) return {{"role", "user"}, {"content", "[an earlier part of the conversation: not shown]"}};
  return {
      {"role", "user"}, {"content", std::string(kHeading) + *opened}, {kSealedSummary, std::move(sealed)}};
}

bool is_summary(const Json& message) {
  return is_user(message) && string_at(message, "content").starts_with(kHeading);
}

void hide_summary(Json& message) {
  if (message.contains(kSealedSummary)) message["content"] = kHeading;
}

void show_summary(Json& message, const Sealer& sealer, const std::string& owner) {
  if (!message.contains(kSealedSummary)) return;
  message = message_of_compaction({{"encrypted_content", message[kSealedSummary]}}, sealer, owner);
  message.erase(kSealedSummary);
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

// A summary that was stopped because it repeats itself has said what it can, and a second try would sample
// another text that may do the same.
std::optional<ApiError> CompactionWriter::fault(const std::vector<AnswerEnd>& ends) const {
  for (const AnswerEnd& end : ends)
    if (end.finish != FinishReason::stop)
      return ApiError{
          500,
          fmt::format("The model's summary was cut after {} tokens: try again, or send a part of the "
                      "conversation",
                      end.usage.completion_tokens),
          "", "summary_incomplete"};
  if (trimmed(summary_).empty())
    return ApiError{500, "The model wrote no summary: try again", "", "summary_empty"};
  return std::nullopt;
}

std::string CompactionWriter::finish(const std::vector<AnswerEnd>&, const Usage& total) {
  const std::string sealed = context_->sealer.seal(trimmed(summary_), kKind, owner_);
  output_.push_back({{"type", "compaction"}, {"id", random_id("cmp_")}, {"encrypted_content", sealed}});
  return dump_json({{"id", head_.id},
                    {"object", "response.compaction"},
                    {"created_at", head_.created},
                    {"output", output_},
                    {"usage", responses_usage(total)},
                    {"anabranch", extension(head_, total)}});
}

}  // namespace anabranch::server
