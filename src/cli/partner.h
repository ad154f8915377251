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

// What an answer is to be like, beside the chat's own options.
struct AnswerOptions {
  Json tools;                                // OpenAI's array of tools that may be called; null: none
  bool silent = false;                       // otherwise it is printed as it comes
  std::optional<ThinkFlags> thinking;        // unset: as the chat's options say
  std::optional<SamplingOptions> sampling;   // likewise
  std::optional<int> max_tokens;             // unset: as the sampling options say
  std::function<void(int tokens)> progress;  // told how many tokens there are, if it is set
};

class Partner {
 public:
  virtual ~Partner() = default;
  virtual std::string name() const = 0;  // of the model
  // Another model (a path or a name) answers from now on; after an error the old one still does, unless
  // `gone`.
  virtual Result<void> change_model(const std::string& path_or_name) = 0;
  virtual bool gone() const { return false; }
  // The answer to a conversation of the chat API's messages. Setting `interrupt` ends it. Several threads may
  // ask at the same time, if they are silent.
  virtual Result<Answer> answer(const Json& messages, const AnswerOptions& options,
                                const std::atomic<bool>& interrupt) = 0;
};

// Loads options.model.
Result<std::unique_ptr<Partner>> load_partner(const ChatOptions& options);
// Asks the server at options.url which models it has. Errors: invalid (no address), not_found (no server
// answers, or it has no model), io and others (what the server said).
Result<std::unique_ptr<Partner>> connect_partner(const ChatOptions& options);

}  // namespace anabranch::cli
