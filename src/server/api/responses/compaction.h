// OpenAI's compaction. POST /v1/responses/compact answers with the user's messages and a summary of the rest,
// which the served model writes. An answer whose request has "context_management" begins with a summary of
// the whole conversation, if that is long. Summaries are sealed (sealed_text.h), and read back from later
// inputs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chat/preparer.h"
#include "server/api/answer_writer.h"
#include "server/api/responses/request.h"

namespace anabranch::server {

inline constexpr int kSummaryTokens = 2048;  // at most, and at most a quarter of the context

// The body of a request for an answer that reads the same conversation as this request for a compaction.
Json body_to_compact(const Json& body);
// The last message of the prompt: it asks the model for a summary.
Json summary_instruction();
// Sets the options of a request for a summary.
void ask_for_summary(GenerationOptions& options, int context);
// Takes the user's messages from the request, as items, without earlier summaries.
Json take_user_messages(ResponsesRequest& request);
// Why the text cannot take the place of a conversation: it is empty, or was cut. end: its own.
std::optional<ApiError> fault_of_summary(const AnswerEnd& end, std::string_view text);

// Reads "context_management" (ResponsesRequest::compact_above).
std::optional<int> read_context_management(JsonFields& fields);

// An answer that begins with a compaction: the model summarizes the conversation, and answers from the
// summary.
struct PlannedCompaction {
  Prepared asking;         // the prompt for the summary
  Result<Prepared> whole;  // the prompt of the whole conversation, for when there is no summary
  ChatRequest chat;        // the request with the whole conversation
};
// A conversation for its summary.
ChatRequest chat_to_summarize(const ChatRequest& chat, int context);

struct CompactedChat {
  Json item;     // "compaction"
  Json message;  // as it is to be stored
  ChatRequest chat;
  Prepared prepared;
};
// Replaces the conversation by its summary and the user's last message. To be called on a worker.
Result<CompactedChat> compact(const PlannedCompaction& planned, const std::string& summary,
                              Preparer& preparer, const Sealer& sealer, const std::string& owner,
                              const std::function<bool()>& cancelled);

// An item "compaction" as a message for the model: the summary, or a placeholder if it was not sealed here
// for this owner. Beside a summary's text stands its sealed form, under kSealedSummary.
Json message_of_compaction(const Json& item, const Sealer& sealer, const std::string& owner);
inline constexpr const char* kSealedSummary = "compaction";
// Whether the message is such a summary.
bool is_summary(const Json& message);
// Removes the text of a summary from its message, which is to be stored. Other messages stay as they are.
void hide_summary(Json& message);
// Undoes hide_summary(), and removes the sealed form.
void show_summary(Json& message, const Sealer& sealer, const std::string& owner);
// The index of the last summary of a whole conversation, which takes the place of all before it; 0: there is
// none. Removes the marks of such summaries.
size_t last_whole_summary(Json& messages);
// The messages from there on, after the instructions at the beginning.
Json from_whole_summary(const Json& messages, size_t summary);

class CompactionWriter : public AnswerWriter {
 public:
  // owner: see Sealer.
  CompactionWriter(Json user_messages, std::shared_ptr<ResponseContext> context, std::string owner)
      : AnswerWriter(false),
        output_(std::move(user_messages)),
        context_(std::move(context)),
        owner_(std::move(owner)) {}

  std::string begin(AnswerHead head, size_t choices) override;
  std::string event(size_t choice, const OutputEvent& event, const std::string& call_id,
                    const TakeLogprobs& logprobs) override;
  std::string choice_finished(size_t, const AnswerEnd&, const TakeLogprobs&) override { return ""; }
  std::optional<ApiError> fault(const std::vector<AnswerEnd>& ends) const override;
  std::string finish(const std::vector<AnswerEnd>& ends, const Usage& total) override;
  std::string failure(const ApiError&) override { return ""; }

 private:
  Json output_;
  const std::shared_ptr<ResponseContext> context_;
  const std::string owner_;
  AnswerHead head_;
  std::string summary_;
};

}  // namespace anabranch::server
