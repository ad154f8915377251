#include "chat/when_to_think.h"

#include <fmt/core.h>

#include <algorithm>

#include "chat/request_words.h"
#include "tokenizer/regex.h"

namespace anabranch {
namespace {

constexpr int kLongPrompt = 1500;  // tokens; more than a system prompt and a few turns of chat
constexpr int kNeedleWords = 40;   // words of a question that looks one thing up
constexpr int kChatWords = 12;     // words of a plain question
constexpr int kNameWords = 4;      // words after "the capital of", "who wrote"

bool is_needle(const std::vector<Sentence>& question) {
  int words = 0;
  bool looks_up = false;
  for (const Sentence& sentence : question) {
    words += count_words(sentence);
    looks_up |= find(sentence, "retrieve") && !opens_with(sentence, "whole_text");
  }
  return looks_up && words <= kNeedleWords;
}

bool is_greeting(const std::vector<Sentence>& sentences) {
  return !sentences.empty() && std::all_of(sentences.begin(), sentences.end(), [](const Sentence& sentence) {
    return consists_of(sentence, {"greeting", "polite"});
  });
}

// "What is 7 * 8?": two numbers up to twelve and one operation.
bool is_times_table(std::string_view message, Sentence sentence) {
  static const Regex number = *Regex::compile(" (?:[0-9]|1[012])(?= )");
  Regex::Match match;
  int numbers = 0;
  for (; number.find(sentence, 0, match); numbers++) sentence.erase(match.begin, match.end - match.begin);
  const bool operation = find(sentence, "operator") || message.find_first_of("+-*/") != message.npos ||
                         message.find("×") != message.npos || message.find("÷") != message.npos;
  return operation && numbers == 2 && consists_of(sentence, {"calculate", "operator", "polite"});
}

bool is_plain_fact(std::string_view message) {
  const Sentence sentence = fold(message);  // keeps quoted text, such as titles
  if (count_words(sentence) > kChatWords) return false;
  if (find(sentence, "fact_inside")) return !find(sentence, "hard");
  const auto opening = opens_with(sentence, "fact");
  const int words = opening ? count_words(sentence.substr(*opening)) : 0;
  return words > 0 && words <= kNameWords && !find(sentence, "hard", *opening) &&
         !find(sentence, "given", *opening);
}

}  // namespace

ThinkDecision when_to_think(std::string_view user, int prompt_tokens) {
  const Message message = read_message(user);
  const bool long_prompt = prompt_tokens >= kLongPrompt;
  if (long_prompt && is_needle(message.question))
    return {true, fmt::format("a short question that looks something up in {} tokens", prompt_tokens)};
  if (is_greeting(message.sentences)) return {false, "a greeting or thanks"};
  if (message.sentences.size() == 1) {
    if (is_times_table(user, message.sentences[0])) return {false, "arithmetic done in the head"};
    if (!long_prompt && is_plain_fact(user)) return {false, "a short question for a plain fact"};
  }
  return {true, "nothing in the message says otherwise"};
}

}  // namespace anabranch
