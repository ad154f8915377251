#include "server/api/responses/compaction.h"

#include <algorithm>

#include "base/white_space.h"
#include "server/api/request_images.h"
#include "server/api/responses/format.h"
#include "server/api/shorten.h"

namespace anabranch::server {
namespace {

// See Sealer. A summary of the second kind takes the place of all messages before it.
constexpr std::string_view kKind = "compaction", kWholeKind = "whole compaction";
constexpr const char* kWhole = "whole_compaction";  // marks its message
constexpr std::string_view kHeading = "[Summary of the conversation before this message]\n";
constexpr std::string_view kLastHeading = "\n\n[The user's last message]\n";
constexpr size_t kMostKept = 8 << 10;  // bytes of the user's last message that stay beside the summary
constexpr const char* kInstruction =
    "Summarize the conversation above, so that somebody who has not read it can go on with it. Say what the "
    "user wants, what was decided and done, which facts, names, numbers and files still matter, and what is "
    "left to do. Write only the summary.";

bool is_user(const Json& message) {
  return string_at(message, "role") == "user";
}

Json sealed_item(std::string sealed) {
  return {{"type", "compaction"}, {"id", random_id("cmp_")}, {"encrypted_content", std::move(sealed)}};
}

// The user's last message, also from behind an earlier summary; empty if it is too long to stay beside one.
std::string last_words(const Json& messages) {
  std::string text = last_user_text(messages);
  if (text.starts_with(kHeading)) {
    const size_t at = text.rfind(kLastHeading);
    text.erase(0, at == text.npos ? at : at + kLastHeading.size());
  }
  return text.size() <= kMostKept ? text : "";
}

// The number of images from the user's last message on.
size_t last_images(const Json& messages) {
  size_t at = messages.size();
  while (at > 0 && !is_user(messages[at - 1])) --at;
  return at == 0 ? 0
                 : count_images(Json(messages.begin() + static_cast<std::ptrdiff_t>(at - 1), messages.end()));
}

// The chat with this text, behind the heading of summaries, in place of the conversation. Of the images, the
// last ones stay.
ChatRequest with_summary(const ChatRequest& chat, const std::string& text, size_t images) {
  ChatRequest out = chat;
  out.images.erase(out.images.begin(), out.images.end() - static_cast<std::ptrdiff_t>(images));
  Json content = std::string(kHeading) + text;
  if (images > 0) content = Json::array({{{"type", "text"}, {"text", content}}});
  for (size_t i = 0; i < images; ++i) content.push_back({{"type", "image"}});
  out.messages =
      Json(chat.messages.begin(),
           chat.messages.begin() + static_cast<std::ptrdiff_t>(behind_instructions(chat.messages)));
  out.messages.push_back({{"role", "user"}, {"content", std::move(content)}});
  return out;
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

void ask_for_summary(GenerationOptions& options, int context) {
  options.max_tokens = context > 0 ? std::clamp(context / 4, 1, kSummaryTokens) : kSummaryTokens;
  options.thinking = {.mode = ThinkMode::off, .said_by = "a compaction does not think"};
}

Json take_user_messages(ResponsesRequest& request) {
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
  auto opened = sealer.open(sealed, kKind, owner);
  const bool whole = !opened && (opened = sealer.open(sealed, kWholeKind, owner));
  if (!opened) return {{"role", "user"}, {"content", "[an earlier part of the conversation: not shown]"}};
  Json message = {
      {"role", "user"}, {"content", std::string(kHeading) + *opened}, {kSealedSummary, std::move(sealed)}};
  if (whole) message[kWhole] = true;
  return message;
}

bool is_summary(const Json& message) {
  return is_user(message) && string_at(message, "content").starts_with(kHeading);
}

void hide_summary(Json& message) {
  if (message.contains(kSealedSummary)) message["content"] = kHeading;
  message.erase(kWhole);
}

void show_summary(Json& message, const Sealer& sealer, const std::string& owner) {
  message.erase(kWhole);  // only the sealed form tells
  if (!message.contains(kSealedSummary)) return;
  message = message_of_compaction({{"encrypted_content", message[kSealedSummary]}}, sealer, owner);
  message.erase(kSealedSummary);
}

size_t last_whole_summary(Json& messages) {
  size_t last = 0;
  for (size_t i = 0; i < messages.size(); ++i)
    if (messages[i].erase(kWhole) > 0) last = i;
  return last;
}

Json from_whole_summary(const Json& messages, size_t summary) {
  const auto at = [&](size_t index) { return messages.begin() + static_cast<std::ptrdiff_t>(index); };
  Json out = Json(messages.begin(), at(std::min(summary, behind_instructions(messages))));
  out.insert(out.end(), at(summary), messages.end());
  return out;
}

std::optional<int> read_context_management(JsonFields& fields) {
  std::optional<int> most;
  const Json* entries = fields.array("context_management");
  for (size_t i = 0; entries && i < entries->size(); ++i) {
    const Json& json = (*entries)[i];
    const std::string where = fmt::format("context_management[{}]", i);
    if (!json.is_object()) {
      fields.fail(where, "invalid_type",
                  fmt::format("'{}' must be an object, not {}", where, json_type(json)));
      return std::nullopt;
    }
    JsonFields entry(json, where + ".");
    entry.required_string("type");
    entry.only("type", {"compaction"}, "contexts are only compacted here: it must be compaction");
    const auto tokens = entry.integer("compact_threshold", 1, INT_MAX).value_or(INT_MAX);
    for (const auto& [name, value] : json.items())
      if (name != "type" && name != "compact_threshold")
        entry.fail(name, "unknown_parameter",
                   fmt::format("'{}.{}' is not known: there are type and compact_threshold", where, name));
    if (entry.error()) fields.fail(*entry.error());
    most = std::min(most.value_or(INT_MAX), static_cast<int>(tokens));
  }
  return most;
}

// Only what says how the model is run is that of the request: tools, formats and stop strings are for the
// answer.
ChatRequest chat_to_summarize(const ChatRequest& chat, int context) {
  const GenerationOptions& given = chat.options;
  ChatRequest out{.options = {.sampling = given.sampling,
                              .seed = given.seed,
                              .speculation = given.speculation,
                              .priority = given.priority,
                              .background = given.background,
                              .cache = given.cache,
                              .cache_salt = given.cache_salt,
                              .adapters = given.adapters,
                              .slot = given.slot},
                  .messages = chat.messages,
                  .images = chat.images,
                  .chat = chat.chat};
  out.options.sampling.logit_bias.clear();
  ask_for_summary(out.options, context);
  return out;
}

// The user's last message stays, word for word and with the images behind it, as long as the prompt fits.
Result<CompactedChat> compact(const PlannedCompaction& planned, const std::string& summary,
                              Preparer& preparer, const Sealer& sealer, const std::string& owner,
                              const std::function<bool()>& cancelled) {
  const Json& messages = planned.chat.messages;
  const auto made = [&](const std::string& text, size_t images) -> Result<CompactedChat> {
    CompactedChat out{.chat = with_summary(planned.chat, text, images)};
    TRY(out.prepared, preparer.chat(out.chat, cancelled));
    out.item = sealed_item(sealer.seal(text, kWholeKind, owner));
    out.message = {{"role", "user"}, {"content", kHeading}, {kSealedSummary, out.item["encrypted_content"]}};
    return out;
  };
  const std::string last = last_words(messages);
  const size_t images = last_images(messages);
  if (!last.empty() || images > 0) {
    auto out = made(last.empty() ? summary : summary + std::string(kLastHeading) + last, images);
    if (out) return out;
  }
  return made(summary, 0);
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
std::optional<ApiError> fault_of_summary(const AnswerEnd& end, std::string_view text) {
  if (end.finish != FinishReason::stop)
    return ApiError{
        500,
        fmt::format("The model's summary was cut after {} tokens: try again, or send a part of the "
                    "conversation",
                    end.usage.completion_tokens),
        "", "summary_incomplete"};
  if (trimmed(text).empty())
    return ApiError{500, "The model wrote no summary: try again", "", "summary_empty"};
  return std::nullopt;
}

std::optional<ApiError> CompactionWriter::fault(const std::vector<AnswerEnd>& ends) const {
  return fault_of_summary(ends[0], summary_);
}

std::string CompactionWriter::finish(const std::vector<AnswerEnd>&, const Usage& total) {
  output_.push_back(sealed_item(context_->sealer.seal(trimmed(summary_), kKind, owner_)));
  return dump_json({{"id", head_.id},
                    {"object", "response.compaction"},
                    {"created_at", head_.created},
                    {"output", output_},
                    {"usage", responses_usage(total)},
                    {"anabranch", extension(head_, total)}});
}

}  // namespace anabranch::server
