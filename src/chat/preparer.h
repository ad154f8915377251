// Prepares a client's request for the engine: renders the template, chooses whether to think, tokenises. Slow
// for long prompts, so servers run it on a worker thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_request.h"
#include "chat/prompt_compiler.h"
#include "chat/replay.h"
#include "chat/volatile_text.h"

namespace anabranch {

struct Prepared {
  GenerationOptions options;
  std::vector<std::vector<int>> prompts;  // exactly one, except for text completions
  std::vector<RequestImage> images;       // see Request (chat only)
  std::vector<int> keep_at;               // see Request
  std::vector<MarkedLength> marked;       // see CompiledPrompt (chat only)
  int begun = 0;                          // see Request
  OutputRules rules;                      // how to parse the answer (chat only)
  ThinkingOptions thinking;
  ToolChoice choice;         // chat only
  bool constrained = false;  // compile() makes a grammar from the request's restrictions
  std::shared_ptr<const CompiledGrammar> grammar;  // null: the answer is unrestricted
  std::optional<ThinkReport> think_report;         // chat only
  // A hash of the conversation before the answer (conversation_key). The answer's sampled tokens are stored
  // under it, and found when the client sends the turn back; none: they are not stored.
  std::optional<uint64_t> remember;
  int before_last = 0;  // see CompiledPrompt (chat only)
  // The request as it came, for next_turn(), but without its adapters, which would stay loaded with it; null:
  // the prompts of its next turn are not read ahead.
  std::shared_ptr<const ChatRequest> asked;
};

struct PrepareOptions {
  std::vector<VolatileRule> volatile_text;  // for system prompts
  std::string turns_path;                   // where sampled turns are stored; empty: in memory
  bool read_ahead = false;                  // Prepared::asked is set
  // With a template that knows `preserve_thinking`: prompts keep the thoughts of earlier turns. Those that a
  // client does not send back are found by the conversation, as sampled turns are.
  bool keep_thinking = false;
};

// Thread-safe. The engine must outlive it.
class Preparer {
 public:
  Preparer(const Engine& engine, PrepareOptions options);
  // cancelled, here and below: returns true if nobody waits for the result any more. Called now and then; the
  // result is then an error.
  Result<Prepared> chat(ChatRequest request, const std::function<bool()>& cancelled);
  // The largest number of tokens that is counted for a text. It is larger than the context length, because
  // clients ask by how much a text is too long.
  size_t most_counted() const;
  // Prepares what is known of a conversation's next prompt: all up to where the text of the next message
  // begins. Running it samples nothing, and caches the state. request: Prepared::asked. answer: the message
  // that answered it. The result lacks the request's adapters (options.adapters), but has their salt. Errors:
  // invalid (the template does not tell), and those of chat().
  Result<Prepared> next_turn(ChatRequest request, Json answer, const std::function<bool()>& cancelled);
  // Prepares a request whose prompt is only counted: it need not fit into the context.
  Result<Prepared> count(ChatRequest request, const std::function<bool()>& cancelled);
  Result<Prepared> completion(CompletionRequest request, const std::function<bool()>& cancelled) const;
  // Has the engine compile the grammar of the request's restrictions, and passes the request with it to
  // `done`: on the engine's thread, or at once if nothing restricts the answer. If the client has gone by
  // then, `done` is not called.
  void compile(Prepared prepared, const GrammarClient& client,
               std::function<void(Result<Prepared>)> done) const;
  // Stores a turn's sampled tokens, for the prompt in which the client sends the turn back. Returns the keys
  // under which they are stored.
  std::vector<uint64_t> remember(std::span<const int> sampled, TurnEndReason end, uint64_t conversation,
                                 const OutputRules& rules) {
    return remember_turn(sampled, end, conversation, rules, engine_.tokenizer(), turns_, keep_thinking_);
  }
  void write_turns() { turns_.write(); }
  // Removes the turns with these keys (remember).
  void forget_turns(std::span<const uint64_t> keys) { turns_.forget(keys); }

 private:
  Result<std::vector<RequestImage>> pictures_of(ChatRequest& request, size_t most_tokens,
                                                const std::function<bool()>& cancelled) const;
  Result<Prepared> prepare_chat(ChatRequest request, size_t most_tokens,
                                const std::function<bool()>& cancelled);
  Result<std::vector<int>> prompt_tokens(TextOrTokens prompt, const std::string& param,
                                         EncodeLimit limit) const;
  Result<Prepared> check(Prepared prepared, const std::string& param) const;
  Error too_long(size_t tokens, bool counted, const std::string& param) const;
  Error stop_error(const EncodeLimit& limit, const std::string& param) const;
  size_t most_tokens() const;

  const Engine& engine_;
  const std::unique_ptr<const ChatTemplate> tool_prompt_;  // null: the template supports tools itself
  const ChatTemplate* const chat_;                         // null: the model has no template
  const std::unique_ptr<const ChatTemplate> fitted_;       // `chat_` for any history; null as `chat_`
  const OutputFormat format_;
  const std::vector<VolatileRule> volatile_text_;
  const bool read_ahead_, keep_thinking_;
  TurnMemory turns_;
  std::optional<PromptCompiler> compiler_;  // none: the model has no chat template
};

}  // namespace anabranch
