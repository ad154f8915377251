#include "text/prompt_compiler.h"

#include <algorithm>

namespace anabranch::text {
namespace {

constexpr size_t kMaxKnown = 32, kMaxKnownTokens = 1 << 18;  // of one entry

bool is_instruction(const Json& message) {
  const auto role = message.find("role");
  return role != message.end() && (*role == "system" || *role == "developer");
}

Json instructions_of(const Json& messages) {
  Json out = Json::array();
  for (const auto& message : messages) {
    if (!is_instruction(message)) break;
    out.push_back(message);
  }
  return out;
}

std::string kind_of(const ChatOptions& options, std::string_view salt) {
  const char thinking = !options.enable_thinking ? '?' : *options.enable_thinking ? '+' : '-';
  return fmt::format("{} {}{}{}", salt.size(), salt, thinking,
                     options.extra.dump(-1, ' ', false, Json::error_handler_t::replace));
}

int common_prefix(std::span<const int> a, std::span<const int> b) {
  const size_t n = std::min(a.size(), b.size());
  return static_cast<int>(std::mismatch(a.begin(), a.begin() + static_cast<long>(n), b.begin()).first -
                          a.begin());
}

}  // namespace

int PromptCompiler::Known::match(std::string_view kind, std::span<const int> prompt) {
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

void PromptCompiler::Known::put(std::string kind, std::span<const int> tokens) {
  if (tokens.size() > kMaxKnownTokens) return;
  std::lock_guard lock(mutex_);
  entries_.push_front({std::move(kind), {tokens.begin(), tokens.end()}});
  if (entries_.size() > kMaxKnown) entries_.pop_back();
}

// Tokens that the prompt and another rendering begin with.
std::optional<int> PromptCompiler::common_length(const Json& messages, const Json& tools,
                                                 const ChatOptions& options, std::string_view salt,
                                                 std::span<const int> prompt) {
  const auto pieces = chat_.render(messages, tools, options);
  if (!pieces.ok()) return std::nullopt;
  return common_prefix(prompt, tokenizer_.encode(std::span<const Piece>(*pieces), &memo_, salt));
}

// Of the prompt's beginning that only tools and system prompt decide.
std::optional<int> PromptCompiler::instruction_length(const Json& messages, const Json& tools,
                                                      const ChatOptions& options, std::string_view salt,
                                                      std::span<const int> prompt) {
  const Json instructions = instructions_of(messages);
  if (instructions.empty() && tools.empty()) return std::nullopt;
  // Lengths are hints, so a hash that is not proof against collisions will do.
  std::string kind = fmt::format("{:x} {:x} {}", std::hash<Json>{}(instructions), std::hash<Json>{}(tools),
                                 kind_of(options, salt));
  if (const int known = beginnings_.match(kind, prompt)) return known;
  // Two questions that share no token: what both renderings share with the prompt is before the question.
  std::optional<int> shared;
  for (const char* question : {"A", "9"}) {
    Json asked = instructions;
    asked.push_back({{"role", "user"}, {"content", question}});
    const auto length = common_length(asked, tools, options, salt, prompt);
    if (length) shared = std::min(shared.value_or(*length), *length);
  }
  if (shared && *shared > 0) beginnings_.put(std::move(kind), prompt.first(static_cast<size_t>(*shared)));
  return shared;
}

// Of the prompt without the answer's opening.
std::optional<int> PromptCompiler::closed_length(const Json& messages, const Json& tools,
                                                 const ChatOptions& options, std::string_view salt,
                                                 std::span<const int> prompt) {
  std::string kind = kind_of(options, salt);
  const int size = static_cast<int>(prompt.size());
  if (const int known = openings_.match(kind, prompt)) return size - known;
  ChatOptions closed = options;
  closed.add_generation_prompt = false;
  const auto length = common_length(messages, tools, closed, salt, prompt);
  if (!length || *length == size) return std::nullopt;
  openings_.put(std::move(kind), prompt.subspan(static_cast<size_t>(*length)));
  return length;
}

Result<CompiledPrompt> PromptCompiler::compile(const Json& messages, const Json& tools,
                                               const ChatOptions& options, std::string_view salt) {
  CompiledPrompt prompt;
  TRY(prompt.pieces, chat_.render(messages, tools, options));
  prompt.tokens = tokenizer_.encode(std::span<const Piece>(prompt.pieces), &memo_, salt);
  for (const auto& length : {instruction_length(messages, tools, options, salt, prompt.tokens),
                             closed_length(messages, tools, options, salt, prompt.tokens)})
    if (length && *length > 0) prompt.stable_lengths.push_back(*length);
  std::sort(prompt.stable_lengths.begin(), prompt.stable_lengths.end());
  prompt.stable_lengths.erase(std::unique(prompt.stable_lengths.begin(), prompt.stable_lengths.end()),
                              prompt.stable_lengths.end());
  return prompt;
}

}  // namespace anabranch::text
