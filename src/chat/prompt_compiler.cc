#include "chat/prompt_compiler.h"

#include <algorithm>
#include <random>

#include "base/white_space.h"

namespace anabranch {
namespace {

constexpr size_t kMaxKnown = 32, kMaxKnownTokens = 1 << 18, kMaxKind = 4096;  // the last two: per entry

bool is_instruction(const Json& message) {
  const std::string role = string_at(message, "role");
  return role == "system" || role == "developer";
}

Json instructions_of(const Json& messages) {
  Json out = Json::array();
  for (const auto& message : messages) {
    if (!is_instruction(message)) break;
    out.push_back(message);
  }
  return out;
}

std::string kind_of(const TemplateOptions& options, std::string_view salt) {
  const char thinking = !options.enable_thinking ? '?' : *options.enable_thinking ? '+' : '-';
  return fmt::format("{} {}{}{}", salt.size(), salt, thinking, dump_json(options.extra));
}

// A random name, so that a client cannot have written it before.
std::string random_name() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}", device(), device(), device());
}

// Removes the space that templates for SentencePiece write, since the turn's first token already contains it.
void drop_last_space(std::vector<PromptPiece>& run) {
  while (!run.empty() && run.back().text.empty()) run.pop_back();
  if (!run.empty() && run.back().text.back() == ' ') run.back().text.pop_back();
}

}  // namespace

int PromptCompiler::SeenTokens::match(std::string_view kind, std::span<const int> prompt) {
  std::lock_guard lock(mutex_);
  auto best = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const size_t n = it->tokens.size();
    if (it->kind != kind || n > prompt.size()) continue;
    if (best != entries_.end() && n <= best->tokens.size()) continue;
    const auto part = at_end_ ? prompt.last(n) : prompt.first(n);
    if (std::equal(part.begin(), part.end(), it->tokens.begin())) best = it;
  }
  if (best == entries_.end()) return 0;
  entries_.splice(entries_.begin(), entries_, best);
  return static_cast<int>(best->tokens.size());
}

void PromptCompiler::SeenTokens::put(std::string kind, std::span<const int> tokens) {
  if (tokens.size() > kMaxKnownTokens || kind.size() > kMaxKind) return;
  std::lock_guard lock(mutex_);
  entries_.push_front({std::move(kind), {tokens.begin(), tokens.end()}});
  if (entries_.size() > kMaxKnown) entries_.pop_back();
}

// Whether the template writes the same before and after an assistant's turn when text replaces its tool
// calls. Some templates end a turn with calls differently, or continue it with the tool's result.
bool PromptCompiler::calls_can_be_text() {
  std::call_once(probed_, [&] {
    const auto probe = [](Json assistant) {
      return Json::array(
          {{{"role", "user"}, {"content", "A"}},
           std::move(assistant),
           {{"role", "tool"}, {"tool_call_id", "probe0001"}, {"name", "probe_f"}, {"content", "B"}},
           {{"role", "assistant"}, {"content", "C"}},
           {{"role", "user"}, {"content", "D"}}});
    };
    const Json call = {{"id", "probe0001"},  // Mistral's templates want nine letters and digits
                       {"type", "function"},
                       {"function", {{"name", "probe_f"}, {"arguments", {{"key", "value"}}}}}};
    const std::string mark = random_name();
    TemplateOptions options;
    options.now = 0;
    const auto calls =
        template_.render(probe({{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}}),
                         nullptr, options);
    const auto text = template_.render(probe({{"role", "assistant"}, {"content", mark}}), nullptr, options);
    if (!calls.ok() || !text.ok()) return;
    const std::string whole = join(*calls), marked = join(*text);
    const size_t at = marked.find(mark);
    if (at == marked.npos) return;
    const auto before = std::string_view(marked).substr(0, at);
    const auto after = std::string_view(marked).substr(at + mark.size());
    calls_can_be_text_ =
        whole.size() >= before.size() + after.size() && whole.starts_with(before) && whole.ends_with(after);
  });
  return calls_can_be_text_;
}

// Renders the messages with marks in place of the turns with known tokens, to find where these tokens go.
// Nothing if a mark does not appear exactly once, or not as text between special tokens. Reasoning may be
// left out. thoughts: with marks in place of reasoning, too.
std::optional<CompiledPrompt> PromptCompiler::tokens_around(const Chat& chat, bool thoughts) {
  Json messages = chat.messages;
  Marks marks{"turn-" + random_name() + "-", {}};
  for (const KnownTurn& turn : chat.turns) {
    if (image_format_ && std::ranges::count(turn.tokens, image_format_->pad) > 0) continue;
    Json& message = messages.at(turn.message);
    if (message.contains("tool_calls") && !calls_can_be_text()) continue;
    message["content"] = marks.text(marks.turns.size());
    if (thoughts && turn.answer > 0) message["reasoning_content"] = marks.thought(marks.turns.size());
    message.erase("tool_calls");
    marks.turns.push_back(&turn);
  }
  if (marks.turns.empty()) return std::nullopt;
  auto pieces = render(messages, chat);
  if (!pieces.ok()) return std::nullopt;
  auto tokens = splice(*pieces, chat, marks);
  if (!tokens) return std::nullopt;
  return CompiledPrompt{std::move(*pieces), std::move(*tokens), {}, {}};
}

std::optional<std::vector<int>> PromptCompiler::splice(std::span<const PromptPiece> pieces, const Chat& chat,
                                                       const Marks& marks) {
  std::vector<int> tokens;
  std::vector<PromptPiece> run;  // since the last mark
  size_t next = 0;
  bool inside = false;  // between the marks of a turn's thought and text: its tokens stand for both
  const auto flush = [&] {
    if (chat.limit) chat.limit->go_on_after(tokens.size());
    const auto part = tokenizer_.encode(std::span<const PromptPiece>(run), &memo_, chat.salt, chat.limit);
    run.clear();
    const bool marked_off = next == 0 || (!part.empty() && tokenizer_.is_special(part.front()));
    tokens.insert(tokens.end(), part.begin(), part.end());
    return marked_off;
  };
  for (const PromptPiece& piece : pieces) {
    std::string_view rest = piece.text;
    for (size_t at; (at = rest.find(marks.name)) != std::string_view::npos;) {
      if (next == marks.turns.size()) return std::nullopt;
      const std::string text = marks.text(next);
      const bool thought = !inside && rest.substr(at).starts_with(marks.thought(next));
      if (!thought && !rest.substr(at).starts_with(text)) return std::nullopt;
      const size_t end = at + (thought ? marks.thought(next) : text).size();
      if (inside) {
        rest.remove_prefix(end);
        inside = false;
        next++;
        continue;
      }
      const KnownTurn& turn = *marks.turns[next];
      const auto known = std::span(turn.tokens).subspan(thought ? 0 : turn.answer);
      run.push_back({std::string(rest.substr(0, at)), piece.trusted});
      if (!known.empty() && tokenizer_.token_bytes(known.front()).starts_with(' ')) drop_last_space(run);
      if (!flush()) return std::nullopt;
      rest.remove_prefix(end);
      inside = thought;
      if (!inside) next++;
      tokens.insert(tokens.end(), known.begin(), known.end());
    }
    if (!inside) run.push_back({std::string(rest), piece.trusted});
  }
  if (next < marks.turns.size() || !flush()) return std::nullopt;
  return tokens;
}

Result<CompiledPrompt> PromptCompiler::tokens_of(const Chat& chat) {
  const auto stopped = [&] { return chat.limit && chat.limit->stopped(); };
  const auto ended = [] { return make_error(ErrorKind::invalid, "the prompt was not read to its end"); };
  if (chat.limit) chat.limit->ask();  // ask now, because rendering cannot be stopped early
  if (stopped()) return ended();
  const bool thoughts =
      std::ranges::any_of(chat.turns, [](const KnownTurn& turn) { return turn.answer > 0; });
  if (!chat.turns.empty()) {
    auto prompt = tokens_around(chat, thoughts);
    if (!prompt && thoughts) prompt = tokens_around(chat, false);
    if (stopped()) return ended();
    if (prompt) {
      TRY_VOID(put_images_in(*prompt, chat));
      return std::move(*prompt);
    }
  }
  CompiledPrompt prompt;
  TRY(prompt.pieces, render(chat.messages, chat));
  if (chat.limit) chat.limit->go_on_after(0);
  prompt.tokens =
      tokenizer_.encode(std::span<const PromptPiece>(prompt.pieces), &memo_, chat.salt, chat.limit);
  if (stopped()) return ended();
  TRY_VOID(put_images_in(prompt, chat));
  return prompt;
}

Result<std::vector<PromptPiece>> PromptCompiler::render(const Json& messages, const Chat& chat) const {
  auto pieces = template_.render(messages, chat.tools, chat.options);
  if (pieces.ok() && image_format_ && !chat.images.empty()) write_for_images(*pieces, *image_format_);
  return pieces;
}

// A rendering of only some messages contains only some of the images, so fewer images are not an error here.
Result<void> PromptCompiler::put_images_in(CompiledPrompt& prompt, const Chat& chat) const {
  if (chat.images.empty() || !image_format_) return {};
  auto begins = put_images(prompt.tokens, image_format_->pad, chat.images);
  if (!begins) return make_error(ErrorKind::invalid, "it writes more images than the messages have");
  prompt.images = std::move(*begins);
  return {};
}

// Number of tokens that the prompt and the rendering of `chat` have in common at the beginning.
std::optional<int> PromptCompiler::common_length(const Chat& chat, std::span<const int> prompt) {
  const auto other = tokens_of(chat);
  if (!other.ok()) return std::nullopt;
  const size_t n = std::min(other->tokens.size(), prompt.size());
  const auto end = prompt.begin() + static_cast<long>(n);
  return static_cast<int>(std::mismatch(prompt.begin(), end, other->tokens.begin()).first - prompt.begin());
}

// Length of the prompt's beginning that depends only on the tools and the system prompt.
std::optional<int> PromptCompiler::instruction_length(const Chat& chat, std::span<const int> prompt) {
  const Json instructions = instructions_of(chat.messages);
  if (instructions.empty() && chat.tools.empty()) return std::nullopt;
  // The lengths are only hints, so a hash that is not collision-resistant will do.
  std::string kind = fmt::format("{:x} {:x} {}", std::hash<Json>{}(instructions),
                                 std::hash<Json>{}(chat.tools), kind_of(chat.options, chat.salt));
  if (const int known = beginnings_.match(kind, prompt)) return known;
  // Two questions that share no token: the part that both renderings share with the prompt ends before the
  // question.
  std::optional<int> shared;
  for (const char* question : {"A", "9"}) {
    Json asked = instructions;
    asked.push_back({{"role", "user"}, {"content", question}});
    const auto length =
        common_length({asked, chat.tools, chat.options, chat.salt, {}, {}, chat.limit}, prompt);
    if (chat.limit && chat.limit->stopped())
      return std::nullopt;  // a length from only one rendering must not be stored
    if (length) shared = std::min(shared.value_or(*length), *length);
  }
  if (shared && *shared > 0) beginnings_.put(std::move(kind), prompt.first(static_cast<size_t>(*shared)));
  return shared;
}

// Length of the prompt before its last message, or before the last tool results. Renders another text in
// place of that message, because templates write a conversation differently when nothing follows.
std::optional<int> PromptCompiler::earlier_length(const Chat& chat, std::span<const int> prompt) {
  const auto is_result = [&](size_t i) { return string_at(chat.messages[i], "role") == "tool"; };
  size_t last = chat.messages.size();
  if (last-- < 2) return std::nullopt;
  while (last > 0 && is_result(last) && is_result(last - 1)) last--;
  const Json& message = chat.messages[last];
  if (last == 0 || is_instruction(message) || message.contains("tool_calls")) return std::nullopt;
  Json messages = chat.messages;
  messages.erase(messages.begin() + static_cast<long>(last) + 1, messages.end());
  messages[last]["content"] = trimmed(string_at(message, "content")).starts_with('A') ? "9" : "A";
  const auto turns = chat.turns.first(static_cast<size_t>(
      std::lower_bound(chat.turns.begin(), chat.turns.end(), last,
                       [](const KnownTurn& turn, size_t place) { return turn.message < place; }) -
      chat.turns.begin()));
  return common_length({messages, chat.tools, chat.options, chat.salt, turns, chat.images, chat.limit},
                       prompt);
}

// Length of the prompt without the answer's opening.
std::optional<int> PromptCompiler::closed_length(const Chat& chat, std::span<const int> prompt) {
  std::string kind = kind_of(chat.options, chat.salt);
  const int size = static_cast<int>(prompt.size());
  if (const int known = openings_.match(kind, prompt)) return size - known;
  TemplateOptions closed = chat.options;
  closed.add_generation_prompt = false;
  const auto length = common_length(
      {chat.messages, chat.tools, closed, chat.salt, chat.turns, chat.images, chat.limit}, prompt);
  if (!length || *length == size) return std::nullopt;
  openings_.put(std::move(kind), prompt.subspan(static_cast<size_t>(*length)));
  return length;
}

// Length of the prompt up to the mark. Renders another text behind it.
std::optional<int> PromptCompiler::marked_length(CacheMark mark, const Chat& chat,
                                                 std::span<const int> prompt) {
  Json messages = chat.messages, tools = chat.tools;
  const auto changed = change_behind(mark, messages, tools);
  if (!changed) {
    const bool at_end = mark.in == CacheMark::In::message && mark.index + 1 == messages.size();
    return at_end ? closed_length(chat, prompt) : std::nullopt;
  }
  std::vector<KnownTurn> turns;
  for (const KnownTurn& turn : chat.turns)
    if (turn.message != *changed) turns.push_back(turn);
  return common_length({messages, tools, chat.options, chat.salt, turns, chat.images, chat.limit}, prompt);
}

Result<CompiledPrompt> PromptCompiler::compile(const Json& messages, const Json& tools,
                                               const TemplateOptions& options, std::string_view salt,
                                               std::span<const KnownTurn> turns, EncodeLimit* limit,
                                               std::span<const RequestImage> images,
                                               std::span<const CacheMark> marks) {
  TRY(auto prompt, tokens_of({messages, tools, options, salt, turns, images, limit}));
  if (prompt.images.size() != images.size())
    return make_error(ErrorKind::invalid, "it wrote {} of the messages' {} images", prompt.images.size(),
                      images.size());
  // The other renderings may be a little longer than the prompt, so only cancellation ends them.
  EncodeLimit cancelling(SIZE_MAX, [limit] {
    if (limit) limit->ask();
    return limit && limit->cancelled();
  });
  const Chat chat{messages, tools, options, salt, turns, images, &cancelling};
  auto& lengths = prompt.stable_lengths;
  const auto earlier = earlier_length(chat, prompt.tokens);
  prompt.before_last = earlier.value_or(0);
  for (const auto& length :
       {instruction_length(chat, prompt.tokens), earlier, closed_length(chat, prompt.tokens)})
    if (length && *length > 0) lengths.push_back(*length);
  for (const CacheMark& mark : marks)
    if (const auto length = marked_length(mark, chat, prompt.tokens); length && *length > 0) {
      prompt.marked.push_back({*length, mark.hour});
      lengths.push_back(*length);
    }
  if (cancelling.stopped()) return make_error(ErrorKind::invalid, "the prompt was cancelled");
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return prompt;
}

}  // namespace anabranch
