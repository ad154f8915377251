#include "text/when_to_think.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "text/request_words.h"

namespace anabranch::text {
namespace {

constexpr int kLongPrompt = 1500;    // tokens; more than a system prompt and a few turns of chat
constexpr int kLookUpWords = 40;     // of a question that looks one thing up
constexpr int kChatWords = 10;       // of a greeting or a plain question
constexpr int kHeadArithmetic = 12;  // the times table

int words_of(const std::vector<Sentence>& sentences) {
  int words = 0;
  for (const Sentence& sentence : sentences) words += count_words(sentence);
  return words;
}

bool looks_up(const std::vector<Sentence>& question) {
  return std::any_of(question.begin(), question.end(), [](const Sentence& s) {
    return find(s, Words::retrieve) && !opens_with(s, Words::whole_text);
  });
}

bool is_greeting(const Request& request) {
  return words_of(request.sentences) <= kChatWords &&
         std::all_of(request.sentences.begin(), request.sentences.end(), [](const Sentence& s) {
           return consists_of(s, {Words::greeting, Words::polite}, false);
         });
}

// "What is 7 * 8?": two small numbers and one operation.
bool is_head_arithmetic(std::string_view message, const Request& request) {
  if (request.sentences.size() != 1) return false;
  const Sentence& sentence = request.sentences[0];
  const auto numbers = numbers_in(sentence);
  const bool operation = find(sentence, Words::operators) ||
                         message.find_first_of("+-*/") != std::string_view::npos ||
                         message.find("\xC3\x97") != std::string_view::npos ||
                         message.find("\xC3\xB7") != std::string_view::npos;
  return operation && numbers.size() == 2 &&
         *std::max_element(numbers.begin(), numbers.end()) <= kHeadArithmetic &&
         consists_of(sentence, {Words::calculate, Words::operators, Words::polite}, true);
}

bool is_plain_fact(const Request& request) {
  if (request.sentences.size() != 1 || request.has_code) return false;
  const Sentence& sentence = request.sentences[0];
  return count_words(sentence) <= kChatWords && find(sentence, Words::fact) && !find(sentence, Words::hard) &&
         numbers_in(sentence).empty();
}

}  // namespace

ThinkChoice when_to_think(const ThinkQuestion& question) {
  const Request request = read_request(question.user);
  const bool long_prompt = question.prompt_tokens >= kLongPrompt;
  if (long_prompt && words_of(request.question) <= kLookUpWords && looks_up(request.question))
    return {true,
            fmt::format("a short question that looks something up in {} tokens", question.prompt_tokens)};
  if (request.sentences.empty()) return {true, "nothing in the message says otherwise"};
  if (is_greeting(request)) return {false, "a greeting or thanks"};
  if (is_head_arithmetic(question.user, request)) return {false, "arithmetic done in the head"};
  if (!long_prompt && is_plain_fact(request)) return {false, "a short question for a plain fact"};
  return {true, "nothing in the message says otherwise"};
}

}  // namespace anabranch::text
