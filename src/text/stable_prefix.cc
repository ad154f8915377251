#include "text/stable_prefix.h"

#include <algorithm>
#include <optional>

namespace anabranch::text {
namespace {

// Tokens that the prompt and another rendering begin with.
std::optional<int> common_length(const ChatTemplate& chat, const Tokenizer& tokenizer, const Json& messages,
                                 const Json& tools, const ChatOptions& options, std::span<const int> prompt) {
  const auto pieces = chat.render(messages, tools, options);
  if (!pieces.ok()) return std::nullopt;
  const auto tokens = tokenizer.encode(std::span<const Piece>(*pieces));
  const size_t n = std::min(tokens.size(), prompt.size());
  return static_cast<int>(
      std::mismatch(prompt.begin(), prompt.begin() + static_cast<long>(n), tokens.begin()).first -
      prompt.begin());
}

bool is_instruction(const Json& message) {
  const auto role = message.find("role");
  return role != message.end() && (*role == "system" || *role == "developer");
}

}  // namespace

std::vector<int> stable_lengths(const ChatTemplate& chat, const Tokenizer& tokenizer, const Json& messages,
                                const Json& tools, const ChatOptions& options, std::span<const int> prompt) {
  std::vector<int> lengths;
  Json beginning = Json::array();
  for (const auto& message : messages) {
    if (!is_instruction(message)) break;
    beginning.push_back(message);
  }
  if (!beginning.empty() || !tools.empty()) {
    // Two questions that share no token: what both renderings share with the prompt is before the question.
    std::optional<int> shared;
    for (const char* question : {"A", "9"}) {
      Json asked = beginning;
      asked.push_back({{"role", "user"}, {"content", question}});
      const auto length = common_length(chat, tokenizer, asked, tools, options, prompt);
      if (length) shared = std::min(shared.value_or(*length), *length);
    }
    if (shared) lengths.push_back(*shared);
  }
  ChatOptions closed = options;
  closed.add_generation_prompt = false;
  const auto end = common_length(chat, tokenizer, messages, tools, closed, prompt);
  if (end && *end < static_cast<int>(prompt.size())) lengths.push_back(*end);
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  std::erase(lengths, 0);
  return lengths;
}

}  // namespace anabranch::text
