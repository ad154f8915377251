// OpenAI's compaction: POST /v1/responses/compact answers with the user's messages and a summary of the rest,
// which the served model writes. The summary is sealed (sealed_text.h), and read back from later inputs.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "server/api/answer_writer.h"
#include "server/api/responses/request.h"

namespace anabranch::server {

inline constexpr int kSummaryTokens = 2048;  // at most, and at most a quarter of the context

// The body of a request for an answer that reads the same conversation as this request for a compaction.
Json body_to_compact(const Json& body);
// The last message of the prompt: it asks the model for a summary.
Json summary_instruction();
// Changes the request into one for a summary. Returns the user's messages, as items, without earlier
// summaries.
Json ask_for_summary(ResponsesRequest& request, int context);

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
  // A summary that is empty, or was cut.
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
