#include "chat/preparer.h"

#include <algorithm>
#include <climits>

#include "chat/history_fit.h"
#include "chat/message_text.h"
#include "chat/read_pictures.h"
#include "chat/tool_prompt.h"

namespace anabranch {
namespace {

constexpr const char* kPreserve = "preserve_thinking";
constexpr size_t kMostCounted = 256u << 10;  // tokens, or four times the context if that is more

Error constraint_error(const std::string& field, const Error& error) {
  return {error.kind, fmt::format("'{}': {}", field, error.message), field};
}

// The model's template with a generic tool format, if it does not support tools itself; null: it does, or
// there is no template.
std::unique_ptr<const ChatTemplate> tool_prompt(const ChatTemplate* chat) {
  return chat && !shows_tools(*chat) ? with_tool_prompt(*chat) : nullptr;
}

// The result refers to `request` and `user`.
ThinkContext think_context(const ChatRequest& request, std::string_view user, const Json& tools) {
  using Choice = ToolChoice::Kind;
  using Format = ResponseFormat::Kind;
  const Format format = request.options.format.kind;
  const Choice choice = request.tool_choice.kind;
  return {.user = user,
          .tools = !tools.is_null(),
          .must_call = choice == Choice::required || choice == Choice::named,
          .json = format == Format::json || format == Format::schema,
          .loops = request.options.loops,
          .stop = request.options.stop};
}

}  // namespace

Preparer::Preparer(const Engine& engine, PrepareOptions options)
    : engine_(engine),
      tool_prompt_(tool_prompt(engine.chat_template())),
      chat_(tool_prompt_ ? tool_prompt_.get() : engine.chat_template()),
      fitted_(chat_ ? with_fitted_history(*chat_) : nullptr),
      format_(find_output_format(chat_, engine.tokenizer())),
      volatile_text_(std::move(options.volatile_text)),
      read_ahead_(options.read_ahead && engine.stats().cache),
      keep_thinking_(options.keep_thinking && chat_ && chat_->mentions(kPreserve)),
      turns_(options.turns_path) {
  if (fitted_) compiler_.emplace(*fitted_, engine.tokenizer(), engine.image_format());
}

size_t Preparer::most_tokens() const {
  const int context = engine_.info().context_length;
  return context > 0 ? static_cast<size_t>(context) : SIZE_MAX;
}

size_t Preparer::most_counted() const {
  const size_t context = most_tokens();
  return context < SIZE_MAX ? std::max(kMostCounted, 4 * context) : context;
}

Error Preparer::too_long(size_t tokens, bool counted, const std::string& param) const {
  const auto context = static_cast<size_t>(engine_.info().context_length);
  return {ErrorKind::exhausted,
          fmt::format("This model's maximum context length is {} tokens, but the prompt has {}{} and needs "
                      "room for at least one more. Shorten it",
                      context, counted ? "" : "more than ", tokens),
          param,
          "context_length_exceeded",
          counted ? tokens : tokens + 1,
          context};
}

// The error for a prompt whose encoding was stopped early.
Error Preparer::stop_error(const EncodeLimit& limit, const std::string& param) const {
  if (limit.cancelled()) return Error{ErrorKind::busy, "The client has left", "", "cancelled"};
  return too_long(limit.most_tokens(), false, param);
}

Result<std::vector<RequestImage>> Preparer::pictures_of(ChatRequest& request, size_t most_tokens,
                                                        const std::function<bool()>& cancelled) const {
  if (request.images.empty()) return std::vector<RequestImage>();
  if (const ImageFormat* format = engine_.image_format()) {
    auto read = read_pictures(request, *format, most_tokens, cancelled);
    if (!read && read.error().needed > 0) return too_long(most_tokens, false, read.error().field);
    return read;
  }
  if (hide_images_of_tools(request.messages) == 0) {
    request.images.clear();
    return std::vector<RequestImage>();
  }
  return Error{ErrorKind::unsupported,
               "This model cannot read images (its files have no vision tower): send text only, or serve a "
               "model that has one",
               request.images.front().field, "images_unsupported"};
}

Result<Prepared> Preparer::prepare_chat(ChatRequest request, size_t most_tokens,
                                        const std::function<bool()>& cancelled) {
  EncodeLimit limit(most_tokens, cancelled);
  if (!compiler_)
    return Error{
        ErrorKind::unsupported,
        "The loaded model brings no chat template: start the server with --chat-template-file, or use "
        "/v1/completions",
        "messages"};
  TRY(auto images, pictures_of(request, most_tokens, cancelled));
  const std::string user = last_user_text(request.messages);
  move_marks(request.marks, request.messages, volatile_text_);
  split_volatile_text(request.messages, volatile_text_);
  const ChatTemplate& chat = *chat_;
  Prepared prepared;
  using Choice = ToolChoice::Kind;
  const bool forbidden = request.tool_choice.kind == Choice::none && !request.tools.is_null();
  // Tools that must not be called stay in the prompt, so that the cached states of the conversation fit it.
  // Behind the end of a turn nothing is watched.
  if (forbidden && (request.options.ignore_eos || !calls_open_with_token(format_, engine_.tokenizer())))
    request.tools = nullptr;
  const auto shown = std::make_shared<const Json>(std::move(request.tools));
  const auto tools = forbidden ? std::make_shared<const Json>() : shown;
  prepared.rules = {
      .format = format_, .tools = shown, .max_calls = request.parallel_tool_calls ? INT_MAX : 1};
  const std::string& salt = request.options.cache_salt;
  if (keep_thinking_ && !request.chat.extra.contains(kPreserve)) request.chat.extra[kPreserve] = true;
  const bool thoughts = keep_thinking_ && request.chat.extra[kPreserve] == true;
  const auto turns =
      known_turns(request.messages, salt, prepared.rules, engine_.tokenizer(), turns_, thoughts);
  prepared.rules.tools = tools;
  const auto& continuation = request.continuation;
  ThinkingWish wish = request.options.thinking;
  if (continuation && continuation->content.empty()) wish.mode = ThinkMode::on;
  const ThinkContext context = think_context(request, user, *tools);
  if (request.options.bound == TokenBound::shared && request.options.max_tokens > 0)
    wish = within_bound(std::move(wish), request.options.max_tokens, engine_.tokenizer(), format_.reasoning,
                        context);
  if (!wish.effort.empty() && chat.mentions("reasoning_effort") &&
      !request.chat.extra.contains("reasoning_effort"))
    request.chat.extra["reasoning_effort"] = known_effort(wish.effort, format_.reasoning);
  const CompilePrompt compile = [&](std::optional<bool> enable) {
    request.chat.enable_thinking = enable;
    return compiler_->compile(request.messages, *shown, request.chat, salt, turns, &limit, images,
                              request.marks);
  };
  auto chosen = continuation
                    ? continue_prompt(*continuation, format_.reasoning, engine_.tokenizer(), compile, limit)
                    : choose_thinking(wish, chat, format_.reasoning, user, compile);
  if (limit.stopped()) return stop_error(limit, "messages");
  if (!chosen.ok())
    return Error{ErrorKind::invalid,
                 "The model's chat template refused the messages: " + chosen.error().message, "messages",
                 "template_error"};
  const bool forced =
      request.tool_choice.kind == Choice::required || request.tool_choice.kind == Choice::named;
  const bool may_call =
      context.tools && (forced || request.options.format.kind != ResponseFormat::Kind::grammar);
  // Behind a thought the answer's header is written for the model, but it could begin with one of a call.
  const bool opened = forbidden || is_constrained(request.options.format, request.tool_choice, *tools);
  if (!continuation) open_message(wish, format_.reasoning, opened, may_call, engine_.tokenizer(), *chosen);
  prepared.thinking = think_options(wish, *chosen, context);
  if (format_.reasoning && format_.reasoning->are_messages() && !may_call)
    prepared.thinking.calls = CallPolicy::none;
  prepared.think_report = std::move(chosen->thinking);
  prepared.options = std::move(request.options);
  prepared.prompts.push_back(std::move(chosen->prompt.tokens));
  for (size_t i = 0; i < images.size(); i++) images[i].begin = chosen->prompt.images[i];
  prepared.images = std::move(images);
  prepared.keep_at = std::move(chosen->prompt.stable_lengths);
  prepared.marked = std::move(chosen->prompt.marked);
  // The usage reports only states that the engine stores.
  const auto size = static_cast<int>(prepared.prompts[0].size());
  std::erase_if(prepared.marked, [&](const MarkedLength& mark) {
    return mark.length < kLeastKept || mark.length >= size || !prepared.options.cache;
  });
  prepared.before_last = chosen->prompt.before_last;
  prepared.begun = chosen->begun;
  prepared.rules.thinking_open = chosen->open;
  prepared.rules.goes_on = continuation.has_value() || chosen->answers;
  prepared.rules.only_calls = context.must_call;
  prepared.choice = request.tool_choice;
  prepared.constrained = prepared.rules.exact =
      is_constrained(prepared.options.format, prepared.choice, *tools);
  // With a logit bias, sampled tokens may spell the text in an unusual way, and other requests must not get
  // them.
  if (prepared.options.cache && prepared.options.sampling.logit_bias.empty())
    prepared.remember = conversation_key(request.messages, prepared.options.cache_salt);
  return prepared;
}

void Preparer::compile(Prepared prepared, const GrammarClient& client,
                       std::function<void(Result<Prepared>)> done) const {
  static const Json none;
  const Json& tools = prepared.rules.tools ? *prepared.rules.tools : none;
  std::string field;
  const auto constraint =
      constraint_grammar(prepared.options.format, prepared.choice,
                         {format_, engine_.tokenizer(), tools, prepared.rules.max_calls > 1}, field);
  if (!constraint.ok()) return done(constraint_error(field, constraint.error()));
  if (constraint->text.empty()) return done(std::move(prepared));
  const auto kept = std::make_shared<Prepared>(std::move(prepared));
  engine_.compile_grammar(constraint->text, client,
                          [this, done, field = constraint->field, kept](auto grammar) {
                            if (!grammar.ok()) return done(constraint_error(field, grammar.error()));
                            const std::span<const int> prompt = kept->prompts[0];
                            const auto begun = engine_.check_beginning(*grammar, prompt.last(kept->begun));
                            if (!begun.ok()) return done(constraint_error(field, begun.error()));
                            kept->grammar = std::move(*grammar);
                            done(std::move(*kept));
                          });
}

Result<std::vector<int>> Preparer::prompt_tokens(TextOrTokens prompt, const std::string& param,
                                                 EncodeLimit limit) const {
  const Tokenizer& tokenizer = engine_.tokenizer();
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    std::vector<int> ids = tokenizer.encode(*text, true, &limit);
    if (limit.stopped()) return stop_error(limit, param);
    add_leading_bos(tokenizer, ids);
    return ids;
  }
  auto& ids = std::get<std::vector<int>>(prompt);
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= tokenizer.vocab_size())
      return Error{ErrorKind::invalid,
                   fmt::format("'{}[{}]' is token {}, but the vocabulary has {}", param, i, ids[i],
                               tokenizer.vocab_size()),
                   param};
  return std::move(ids);
}

Result<Prepared> Preparer::completion(CompletionRequest request,
                                      const std::function<bool()>& cancelled) const {
  Prepared prepared;
  prepared.options = std::move(request.options);
  prepared.thinking.budget = prepared.options.thinking.budget;
  prepared.thinking.loops = prepared.options.loops;
  for (size_t i = 0; i < request.prompts.size(); ++i) {
    const std::string param =
        request.prompts.size() > 1 ? fmt::format("{}[{}]", request.field, i) : request.field;
    TRY(auto ids, prompt_tokens(std::move(request.prompts[i]), param, {most_tokens(), cancelled}));
    prepared.prompts.push_back(std::move(ids));
  }
  prepared.constrained = is_constrained(prepared.options.format, {}, nullptr);
  return check(std::move(prepared), request.field);
}

// Checks for chats and text completions. After them the engine has no reason to refuse a prompt.
Result<Prepared> Preparer::check(Prepared prepared, const std::string& param) const {
  prepared.rules.keep_stop = prepared.options.keep_stop;
  prepared.rules.min_tokens = prepared.options.min_tokens;
  prepared.rules.stop_tokens = prepared.options.stop_tokens;
  if (prepared.constrained && prepared.options.ignore_eos)
    return Error{ErrorKind::invalid,
                 "'ignore_eos' cannot be combined with a response format or a forced tool call, because "
                 "these end by themselves",
                 "ignore_eos"};
  for (const auto& prompt : prepared.prompts) {
    if (prompt.empty()) return Error{ErrorKind::invalid, "The prompt is empty", param};
    if (prompt.size() >= most_tokens()) return too_long(prompt.size(), true, param);
  }
  return prepared;
}

Result<Prepared> Preparer::chat(ChatRequest request, const std::function<bool()>& cancelled) {
  // Images are not kept, because they are large.
  const bool keep = read_ahead_ && request.images.empty() && !request.continuation && request.options.cache &&
                    request.options.choices == 1;
  auto asked = keep ? std::make_shared<ChatRequest>(request) : nullptr;
  if (asked) asked->options.adapters.clear();
  TRY(auto prepared, prepare_chat(std::move(request), most_tokens(), cancelled));
  prepared.asked = std::move(asked);
  return check(std::move(prepared), "messages");
}

Result<Prepared> Preparer::next_turn(ChatRequest request, Json answer,
                                     const std::function<bool()>& cancelled) {
  request.marks.clear();  // states were kept there when the request was read
  request.messages.push_back(answer);
  const auto calls = answer.find("tool_calls");
  // Any text will do: PromptCompiler finds how much of the prompt does not depend on it.
  if (calls == answer.end())
    request.messages.push_back(message_of("user", "A"));
  else
    for (const Json& call : *calls)
      request.messages.push_back(
          {{"role", "tool"}, {"content", "A"}, {"tool_call_id", string_at(call, "id")}});
  TRY(auto next, prepare_chat(std::move(request), most_tokens(), cancelled));
  if (next.before_last == 0)
    return make_error(ErrorKind::invalid, "the template does not tell where a message begins");
  Prepared prepared;
  prepared.prompts.push_back(std::move(next.prompts[0]));
  prepared.prompts[0].resize(static_cast<size_t>(next.before_last));
  prepared.keep_at = std::move(next.keep_at);
  std::erase_if(prepared.keep_at, [&](int length) { return length >= next.before_last; });
  prepared.options.max_tokens = 0;
  prepared.options.priority = INT_MAX;
  prepared.options.background = true;
  prepared.options.cache_salt = std::move(next.options.cache_salt);
  return check(std::move(prepared), "messages");
}

Result<Prepared> Preparer::count(ChatRequest request, const std::function<bool()>& cancelled) {
  request.marks.clear();
  return prepare_chat(std::move(request), most_counted(), cancelled);
}

}  // namespace anabranch
