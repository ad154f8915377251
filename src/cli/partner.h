// Who answers in `chat`: a model in this process, or a server that speaks the OpenAI API.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "cli/conversation.h"
#include "cli/options.h"

namespace anabranch::cli {

// Options for one answer, beside those of the chat.
struct AnswerOptions {
  Json tools;                                // OpenAI's array of tools that may be called; null: none
  bool may_call = true;                      // otherwise the answer is text
  bool silent = false;                       // otherwise it is printed as it comes
  std::optional<ThinkFlags> thinking;        // unset: see the chat's options
  std::optional<SamplingOptions> sampling;   // unset: see the chat's options
  std::optional<int> max_tokens;             // unset: see the sampling options
  std::function<void(int tokens)> progress;  // called with the number of tokens so far, if it is set
};

class Partner {
 public:
  virtual ~Partner() = default;
  virtual std::string name() const = 0;  // of the model
  // Changes to another model (a path or a name). After an error the old one still answers, unless gone() is
  // true.
  virtual Result<void> change_model(const std::string& path_or_name) = 0;
  virtual bool gone() const { return false; }
  // Answers a conversation, given as messages of the chat API. Setting `interrupt` ends the answer. Several
  // threads may ask at the same time, if they are silent.
  virtual Result<Answer> answer(const Json& messages, const AnswerOptions& options,
                                const std::atomic<bool>& interrupt) = 0;
  // Names of cached states (Answer::states) that were read or made since the last answer.
  virtual std::vector<std::string> late_states() { return {}; }
};

// Loads options.model.
Result<std::unique_ptr<Partner>> load_partner(const ChatOptions& options);
// Asks the server at options.url which models it has. Errors: invalid (malformed address), not_found (no
// server answers, or it has no model), io and others (as the server reported).
Result<std::unique_ptr<Partner>> connect_partner(const ChatOptions& options);

}  // namespace anabranch::cli
