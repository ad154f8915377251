#include "chat/replay.h"

#include <algorithm>
#include <climits>
#include <map>

#include "base/hash.h"
#include "base/white_space.h"
#include "output/output_text.h"

namespace anabranch {
namespace {

constexpr size_t kMostTurns = 1024;  // the most turns looked up for one request, from the last on

// The most tokens for a turn with this text. A turn with more contains something else, such as endless white
// space.
size_t most_tokens(std::string_view said) {
  return 64 + 2 * said.size();
}

// JSON in a canonical form: members sorted by name.
Json sorted(const Json& json) {
  if (json.is_array()) {
    Json out = Json::array();
    for (const Json& item : json) out.push_back(sorted(item));
    return out;
  }
  if (!json.is_object()) return json;
  std::map<std::string, Json> members;
  for (const auto& [name, value] : json.items()) members.emplace(name, sorted(value));
  Json out = Json::object();
  for (auto& [name, value] : members)  // operator[] would search all members each time
    out.get_ref<Json::object_t&>().emplace_back(name, std::move(value));
  return out;
}

// A turn as one text: its content, then each call's name and arguments.
std::string described(std::string_view content, const std::vector<ToolCall>& calls) {
  Json all = Json::array({trimmed(content)});
  for (const auto& call : calls) {
    const auto arguments = parse_json(call.arguments.empty() ? "{}" : call.arguments);
    all.push_back({call.name, arguments.ok() ? dump_json(sorted(*arguments)) : call.arguments});
  }
  return dump_json(all);
}

std::optional<std::string> content_of(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return "";
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) return std::nullopt;
  std::string text;
  for (const Json& part : *content) {
    if (!part.is_object() || !part.contains("text") || !part["text"].is_string()) return std::nullopt;
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

std::optional<ToolCall> call_of(const Json& call) {
  if (!call.is_object()) return std::nullopt;
  const auto function = call.find("function");
  if (function == call.end() || !function->is_object()) return std::nullopt;
  const auto name = function->find("name"), arguments = function->find("arguments");
  if (name == function->end() || !name->is_string() || arguments == function->end()) return std::nullopt;
  return ToolCall{name->get<std::string>(),
                  arguments->is_string() ? arguments->get<std::string>() : dump_json(*arguments)};
}

// An assistant message as one text, made from content and calls as above; nothing for other messages, and for
// content or calls of an unknown format.
std::optional<std::string> described(const Json& message) {
  if (string_at(message, "role") != "assistant") return std::nullopt;
  const auto content = content_of(message);
  if (!content) return std::nullopt;
  std::vector<ToolCall> calls;
  if (const auto list = message.find("tool_calls"); list != message.end() && list->is_array())
    for (const Json& item : *list) {
      auto call = call_of(item);
      if (!call) return std::nullopt;
      calls.push_back(std::move(*call));
    }
  return described(*content, calls);
}

// Whether the tokens contain something that clients do not get to see: reasoning, its tags, or special tokens
// without a meaning for the parser.
bool hides_something(std::span<const int> tokens, const OutputRules& rules, const Tokenizer& tokenizer) {
  const auto markers = marker_tokens(rules);
  for (const int token : tokens)
    if (tokenizer.is_special(token) &&
        std::find(markers.begin(), markers.end(), tokenizer.token_bytes(token)) == markers.end())
      return true;
  const auto& tags = rules.format.reasoning;
  if (!tags) return false;
  const std::string text = tokenizer.decode(tokens, false);
  return text.find(tags->open) != text.npos || text.find(tags->close) != text.npos;
}

// Content and calls of the tokens; nothing if the tokens contain anything else.
std::optional<ParsedOutput> read(std::span<const int> tokens, OutputRules rules, const Tokenizer& tokenizer) {
  if (hides_something(tokens, rules, tokenizer)) return std::nullopt;
  rules.thinking_open = false;
  rules.max_calls = INT_MAX;
  OutputText output(tokenizer, {}, std::move(rules));
  ParsedOutput parsed;
  for (const auto& event : output.push(tokens)) parsed.add(event);
  for (const auto& event : output.finish()) parsed.add(event);
  if (!parsed.reasoning.empty()) return std::nullopt;
  return parsed;
}

uint64_t key_of(uint64_t before, std::string_view text) {
  Fnv1a hash;
  hash.add(static_cast<uint32_t>(before));
  hash.add(static_cast<uint32_t>(before >> 32));
  for (const char c : text) hash.add(static_cast<unsigned char>(c));
  return hash.value();
}

// The key of the conversation with one more message.
uint64_t key_with(uint64_t before, const Json& message) {
  if (const auto said = described(message)) return key_of(before, *said);
  if (!message.is_object()) return key_of(before, dump_json(message));
  const auto content = content_of(message);
  return key_of(key_of(before, string_at(message, "role")),
                content ? *content : dump_json(message["content"]));
}

// The tokens after the reasoning and the white space that follows it, or that stands where a thought may
// begin. `sampled` is without the end of the turn.
std::span<const int> after_reasoning(std::span<const int> sampled, const OutputRules& rules,
                                     const Tokenizer& tokenizer) {
  const auto& tags = rules.format.reasoning;
  const auto close = tags ? tokenizer.find(tags->close) : std::optional<int>();
  const auto last = close ? std::find(sampled.rbegin(), sampled.rend(), *close) : sampled.rend();
  if (last != sampled.rend())
    sampled = sampled.last(static_cast<size_t>(last - sampled.rbegin()));
  else if (!tags || !tags->blanks_before || rules.goes_on)
    return sampled;
  while (!sampled.empty() && is_blank(tokenizer.token_bytes(sampled.front()))) sampled = sampled.subspan(1);
  return sampled;
}

// The key of a turn with this reasoning, from that of the turn without. "": for messages that have none.
uint64_t thought_key(uint64_t turn, std::string_view reasoning) {
  return key_of(key_of(turn, "thought"), reasoning);
}

// A turn that begins inside a thought, in its two parts; nothing if it is not one thought and an answer.
struct ThoughtAndAnswer {
  std::string reasoning;  // trimmed
  size_t begin;           // of the answer's tokens
  ParsedOutput answer;

  bool is_padded() const { return begin > most_tokens(reasoning); }
};
std::optional<ThoughtAndAnswer> read_thought(std::span<const int> tokens, const OutputRules& rules,
                                             const Tokenizer& tokenizer) {
  const auto& tags = rules.format.reasoning;
  const auto close = tags ? tokenizer.find(tags->close) : std::nullopt;
  if (!close) return std::nullopt;
  const auto end = std::find(tokens.begin(), tokens.end(), *close);
  if (end == tokens.end()) return std::nullopt;
  const auto thought = tokens.first(static_cast<size_t>(end - tokens.begin()));
  if (std::any_of(thought.begin(), thought.end(), [&](int id) { return tokenizer.is_special(id); }))
    return std::nullopt;
  const auto rest = after_reasoning(tokens, rules, tokenizer);
  auto answer = read(rest, rules, tokenizer);
  if (!answer) return std::nullopt;
  return ThoughtAndAnswer{std::string(trimmed(tokenizer.decode(thought, false))), tokens.size() - rest.size(),
                          std::move(*answer)};
}

bool are_tokens(std::span<const int> ids, const Tokenizer& tokenizer) {
  return std::all_of(ids.begin(), ids.end(), [&](int id) { return id >= 0 && id < tokenizer.vocab_size(); });
}

// The turn with its reasoning, if that is known and the message has the same, or none if `thoughts` is set.
std::optional<KnownTurn> known_thought(const Json& message, uint64_t key, const std::string& said,
                                       const OutputRules& rules, const Tokenizer& tokenizer,
                                       TurnMemory& memory, bool thoughts) {
  const std::string sent(trimmed(string_at(message, "reasoning_content")));
  if (sent.empty() && !thoughts) return std::nullopt;
  auto tokens = memory.find(thought_key(key, sent));
  if (!tokens || !are_tokens(*tokens, tokenizer)) return std::nullopt;
  const auto turn = read_thought(*tokens, rules, tokenizer);
  if (!turn || described(turn->answer.content, turn->answer.calls) != said) return std::nullopt;
  if (turn->is_padded() || tokens->size() - turn->begin > most_tokens(said)) return std::nullopt;
  if (!sent.empty() && sent != turn->reasoning) return std::nullopt;
  return KnownTurn{0, std::move(*tokens), turn->begin};
}

}  // namespace

uint64_t conversation_key(const Json& messages, std::string_view salt) {
  uint64_t key = key_of(0, salt);
  for (const Json& message : messages) key = key_with(key, message);
  return key;
}

std::vector<KnownTurn> known_turns(const Json& messages, std::string_view salt, const OutputRules& rules,
                                   const Tokenizer& tokenizer, TurnMemory& memory, bool thoughts) {
  std::vector<KnownTurn> turns;
  if (!messages.is_array()) return turns;
  std::vector<uint64_t> before = {key_of(0, salt)};  // keys of the conversation before each message
  for (const Json& message : messages) before.push_back(key_with(before.back(), message));
  // The template writes the headers of messages, which the tokens have, too.
  if (rules.format.reasoning && rules.format.reasoning->are_messages()) return turns;
  size_t left = kMostTurns;
  for (size_t i = messages.size(); i-- > 0 && left > 0;) {
    const auto said = described(messages[i]);
    if (!said) continue;
    left--;
    const uint64_t key = key_of(before[i], *said);
    if (auto turn = known_thought(messages[i], key, *said, rules, tokenizer, memory, thoughts)) {
      turn->message = i;
      turns.push_back(std::move(*turn));
      continue;
    }
    auto tokens = memory.find(key);
    if (!tokens || tokens->size() > most_tokens(*said)) continue;
    const auto parsed = are_tokens(*tokens, tokenizer) ? read(*tokens, rules, tokenizer) : std::nullopt;
    if (parsed && described(parsed->content, parsed->calls) == *said)
      turns.push_back({i, std::move(*tokens)});
  }
  std::reverse(turns.begin(), turns.end());
  return turns;
}

std::vector<uint64_t> remember_turn(std::span<const int> sampled, TurnEndReason end, uint64_t conversation,
                                    const OutputRules& rules, const Tokenizer& tokenizer, TurnMemory& memory,
                                    bool thoughts) {
  if (rules.format.reasoning && rules.format.reasoning->are_messages()) return {};
  if (end == TurnEndReason::end_of_turn) {
    if (sampled.empty() || !tokenizer.is_special(sampled.back())) return {};
    sampled = sampled.first(sampled.size() - 1);
  }
  const auto tokens = after_reasoning(sampled, rules, tokenizer);
  if (tokens.size() > kMostTurnTokens) return {};
  const auto parsed = read(tokens, rules, tokenizer);
  if (!parsed) return {};
  const std::string said = described(parsed->content, parsed->calls);
  const uint64_t key = key_of(conversation, said);
  std::vector<uint64_t> keys;
  const auto put = [&](uint64_t under, std::span<const int> turn) {
    memory.put(under, turn);
    keys.push_back(under);
  };
  if (tokens.size() > most_tokens(said)) return {};
  if (rules.thinking_open && sampled.size() <= kMostTurnTokens)
    if (const auto turn = read_thought(sampled, rules, tokenizer); turn && !turn->is_padded()) {
      if (thoughts) put(thought_key(key, ""), sampled);
      if (!turn->reasoning.empty()) put(thought_key(key, turn->reasoning), sampled);
    }
  const auto again = tokenizer.encode(parsed->content, false);
  const bool usual =
      parsed->calls.empty() && std::equal(again.begin(), again.end(), tokens.begin(), tokens.end());
  if (!usual) put(key, tokens);
  return keys;
}

}  // namespace anabranch
