#include "chat/when_to_think.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "chat/request_text.h"

namespace anabranch::text {
namespace {

constexpr int kLongPrompt = 1500;  // tokens; more than a system prompt and a few turns of chat
constexpr int kLookUpWords = 40;   // of a question that looks one thing up
constexpr int kChatWords = 10;     // of a greeting or a plain question
constexpr size_t kFactBytes = 200;
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

// Whether the words from there on are a proper noun, by their capitals, and so many participles.
bool is_name(const Sentence& s, size_t place, const std::vector<bool>& capitals, int participles) {
  constexpr int kNameWords = 5;
  int names = 0, words = 0, done = 0;
  auto word = static_cast<size_t>(std::count(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(place), ' '));
  for (; place + 1 < s.size() && word < capitals.size(); word++, words++) {
    const size_t end = skip_words(s, place, 1);
    if (capitals[word] && end - place > 2)  // one letter is a variable
      names++;
    else if (starts_at(s, place, Words::fact_done))
      done++;
    else if (!starts_at(s, place, Words::name_part))
      return false;
    place = end;
  }
  return names > 0 && words <= kNameWords + participles && done == participles;
}

// Where the question's own words have capitals, those of others say nothing.
bool is_title_case(const Sentence& s, size_t place, const std::vector<bool>& capitals) {
  const auto words = std::count(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(place), ' ');
  return std::find(capitals.begin() + 1, capitals.begin() + words, true) != capitals.begin() + words;
}

// A few kinds of questions only: most that begin alike ("what is", "where is") want a thought.
bool is_plain_fact(std::string_view message, const Request& request) {
  if (request.sentences.size() != 1 || request.has_code || message.size() > kFactBytes) return false;
  std::vector<bool> capitals;
  const Sentence s = fold(message, &capitals);  // with what is quoted: titles
  if (count_words(s) > kChatWords || !numbers_in(s).empty()) return false;
  const auto is_easy = [](const Sentence& rest) {
    return count_words(rest) > 0 && !find(rest, Words::hard) && !find(rest, Words::given);
  };
  if (find(s, Words::fact_cjk)) return is_easy(s);
  if (const auto who = starts_at(s, 0, Words::fact_who)) return is_easy(s.substr(who->end));
  if (const auto of = starts_at(s, 0, Words::fact_of)) {
    const Sentence rest = s.substr(of->end);
    if (find(rest, Words::hard)) return false;
    return is_name(s, of->end, capitals, 0) ||
           (count_words(rest) <= 2 && is_easy(rest) && !find(rest, Words::article));
  }
  const auto when = starts_at(s, 0, Words::fact_when);
  const auto opening = when ? when : starts_at(s, 0, Words::fact_name);
  return opening && !is_title_case(s, opening->end, capitals) && !find(s, Words::hard, opening->end) &&
         is_name(s, opening->end, capitals, when ? 1 : 0);
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
  if (!long_prompt && is_plain_fact(question.user, request))
    return {false, "a short question for a plain fact"};
  return {true, "nothing in the message says otherwise"};
}

}  // namespace anabranch::text
