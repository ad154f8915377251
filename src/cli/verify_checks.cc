#include "cli/verify_checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <climits>
#include <future>

#include "chat/tool_prompt.h"
#include "cli/prompts.h"

namespace anabranch::cli {
namespace {

constexpr int kAnswerTokens = 64;
constexpr int kFixedPromptTokens = 512;  // an upper bound for all fixed prompts
constexpr int kCachedTokens = 600;       // more than two KV blocks
constexpr int kSpeedTokens = 512;
constexpr int kNeedleTokens = 2000;
constexpr int kNeedleThought = 512;
constexpr int kDraftDepth = 4;  // fixed, so that acceptance is counted for each position
constexpr size_t kMostProblems = 5;

constexpr std::array kFixedPrompts = {
    "The river rises in the hills, where it is hardly wider than a ditch. Further down it",
    "// Adds two numbers.\nint add(int a, int b) {\n\treturn a + b;\n}\n\n// Multiplies two numbers.\nint ",
    "red green blue red green blue red green blue red green blue red green blue red green blue red green "
    "blue red green blue red green blue red green blue red green blue red green blue red green",
};

constexpr const char* kQuestion = "What is the capital of France? Answer in one sentence.";

constexpr const char* kTools = R"([{"type": "function", "function": {"name": "get_length",
    "description": "The length of a river", "parameters": {"type": "object",
    "properties": {"river": {"type": "string"}}, "required": ["river"]}}}])";
// Mistral's templates ask for ids of nine letters or digits.
constexpr const char* kToolCall = R"({"role": "assistant", "content": "", "tool_calls": [{"id": "abcdef123",
    "type": "function", "function": {"name": "get_length", "arguments": "{\"river\": \"Rhine\"}"}}]})";
constexpr const char* kToolResult = R"({"role": "tool", "tool_call_id": "abcdef123", "name": "get_length",
    "content": "1233 km"})";

struct NamedText {
  const char *name, *text;
};
constexpr std::array kTexts = {
    NamedText{"English", "The quick brown fox doesn't jump over 13 lazy dogs; it's resting (for now)."},
    NamedText{"code with tabs",
              "for (int i = 0; i < n; i++) {\n\tif (a[i] != 0)\n\t\tsum += a[i];  // +=\n}\n"},
    NamedText{"emoji", "Fine 👍🏽, family 👨‍👩‍👧, flag 🇫🇷, heart ❤️."},
    NamedText{"CJK", "河流从山上流下来。川は山から流れる。강은 산에서 흐른다."},
    NamedText{"Arabic", "ينبع النهر من الجبال ثم يجري إلى البحر، وطوله ١٢٣ كيلومترا."},
    NamedText{"accents", "Čeština, français, Ελληνικά, naïve, São Paulo, Übergrößenträger, Việt Nam."},
    NamedText{"spaces at both ends", "  two spaces before, three after   "},
    NamedText{"newlines", "\n\nfirst\n\n\n  second\r\nthird\n"},
};

GenerationOptions greedy(int max_tokens) {
  GenerationOptions options;
  options.max_tokens = max_tokens;
  options.ignore_eos = true;
  options.cache = false;
  options.speculation = SpecMode{.automatic = false};
  return options;
}

Result<Answer> run(const VerifySubject& subject, const Result<Prepared>& prepared) {
  static const std::atomic<bool> never{false};
  if (!prepared) return prepared.error();
  return run_prompt(subject.engine, *prepared, true, never);
}

// The model's continuation of plain text.
Result<Answer> go_on(const VerifySubject& subject, const std::string& text, GenerationOptions options) {
  return run(subject, prepare_text(subject.preparer, text, std::move(options)));
}

// The answer to a chat.
Result<Answer> reply(const VerifySubject& subject, const Json& messages, GenerationOptions options,
                     const ThinkFlags& thinking = {"off"}) {
  return run(subject, prepare_chat(subject.engine, subject.preparer, {{"messages", messages}}, thinking,
                                   std::move(options)));
}

// A finding if the context has no room for this number of tokens.
std::optional<Finding> too_long(const VerifySubject& subject, int tokens) {
  const int context = subject.engine.info().context_length;
  if (tokens <= context) return std::nullopt;
  return Finding{Verdict::not_applicable,
                 fmt::format("needs a context of {} tokens, and the model has {}", tokens, context)};
}

// The text as a code block of Markdown: each line is indented.
std::string code_block(const std::string& text) {
  std::string out = "    ";
  for (const char c : text) out += c == '\n' ? "\n    " : std::string(1, c);
  return out;
}

// Describes where two answers differ; empty: they are equal.
std::string difference(const std::vector<int>& got, const std::vector<int>& wanted) {
  if (got == wanted) return "";
  const auto [g, w] = std::mismatch(got.begin(), got.end(), wanted.begin(), wanted.end());
  if (g == got.end() || w == wanted.end())
    return fmt::format("{} tokens instead of {}", got.size(), wanted.size());
  return fmt::format("token {} is {} instead of {}", g - got.begin() + 1, *g, *w);
}

Finding pass_unless(const std::vector<std::string>& problems, std::string details) {
  if (problems.empty()) return {Verdict::pass, std::move(details)};
  return {Verdict::fail, fmt::format("{}", fmt::join(problems, "; "))};
}

// Fills subject.plain.
Result<void> answer_plainly(VerifySubject& subject) {
  for (size_t i = subject.plain.size(); i < kFixedPrompts.size(); i++) {
    TRY(Answer answer, go_on(subject, kFixedPrompts[i], greedy(kAnswerTokens)));
    subject.plain.push_back(std::move(answer.tokens));
  }
  return {};
}

// Encodes `text` and decodes it again, as a whole and token by token.
std::array<std::string, 2> round_trips(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int> tokens = tokenizer.encode(text, false);
  Detokenizer stream(tokenizer, false);
  std::string streamed;
  for (const int token : tokens) streamed += stream.push(token);
  return {tokenizer.decode(tokens, false), streamed + stream.flush()};
}

// Filler sentences without any number, at least `tokens` tokens long, with `hidden`, if given, in the middle.
std::string filler(const Tokenizer& tokenizer, int tokens, const std::string& hidden = "") {
  constexpr std::array places = {"mill", "harbour", "bridge", "old school", "market hall"};
  constexpr std::array events = {"was painted",       "was closed for the winter", "got a new roof",
                                 "had few visitors",  "was lit by lanterns",       "was sold",
                                 "was measured again"};
  constexpr std::array ends = {"in spring", "after the rain", "as the letters tell"};
  std::string text = "These are notes about a small town.";
  bool hides = !hidden.empty();
  for (size_t i = 0, have = 0; have < static_cast<size_t>(tokens); i++) {
    const std::string sentence = fmt::format(" The {} {} {}.", places[i % places.size()],
                                             events[i % events.size()], ends[i % ends.size()]);
    have += tokenizer.encode(sentence, false).size();
    text += sentence;
    if (!hides || have < static_cast<size_t>(tokens) / 2) continue;
    text += " " + hidden;
    hides = false;
  }
  return text;
}

Json message(const char* role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

// The answers to all fixed prompts, which run at the same time.
Result<std::vector<Answer>> answer_together(const VerifySubject& subject, const SpecMode& mode) {
  std::vector<std::future<Result<Answer>>> running;
  for (const char* prompt : kFixedPrompts)
    running.push_back(std::async(std::launch::async, [&subject, &mode, prompt] {
      GenerationOptions options = greedy(kAnswerTokens);
      options.speculation = mode;
      return go_on(subject, prompt, std::move(options));
    }));
  std::vector<Answer> answers;
  for (auto& future : running) {
    TRY(Answer answer, future.get());
    answers.push_back(std::move(answer));
  }
  return answers;
}

// "drafts accepted: 55 of 90 (61 %), by position 40/50 15/40"
std::string acceptance(const SpecCounters::Source& s) {
  if (s.drafted == 0) return "nothing was drafted";
  std::string out = fmt::format("drafts accepted: {} of {} ({:.0f} %), by position", s.accepted, s.drafted,
                                100.0 * s.accepted / s.drafted);
  for (size_t i = 0; i < s.drafted_at.size() && s.drafted_at[i] > 0; i++)
    out += fmt::format(" {}/{}", s.accepted_at[i], s.drafted_at[i]);
  return out;
}

// A conversation of one turn, then the same with its answer and a second question. Without a chat template
// the same as plain text.
struct TwoTurns {
  const VerifySubject& subject;
  std::string question, second = "And what was said about the harbour?";

  Result<Answer> first(GenerationOptions options) const {
    return ask(Json::array({message("user", question)}), question, std::move(options));
  }
  Result<Answer> extended(const std::string& answer, GenerationOptions options) const {
    return ask(
        Json::array({message("user", question), message("assistant", answer), message("user", second)}),
        question + answer + "\n" + second, std::move(options));
  }

 private:
  Result<Answer> ask(const Json& messages, const std::string& text, GenerationOptions options) const {
    if (!subject.engine.chat_template()) return go_on(subject, text, std::move(options));
    return reply(subject, messages, std::move(options));
  }
};

struct SpecialTokens {
  int count = 0;
  std::vector<std::string> problems;
};

// Encoding the text of a special token must give that token, but never if a user typed the text.
SpecialTokens check_special_tokens(const Tokenizer& tokenizer) {
  SpecialTokens out;
  for (int id = 0; id < tokenizer.vocab_size() && out.problems.size() < kMostProblems; id++) {
    const std::string text(tokenizer.token_bytes(id));
    if (!tokenizer.is_special(id) || tokenizer.find(text) != id) continue;
    out.count++;
    const auto typed = tokenizer.encode(text, false);
    if (tokenizer.encode(text, true) != std::vector{id})
      out.problems.push_back(fmt::format("special token {} is not encoded as itself", dump_json(text)));
    else if (std::ranges::find(typed, id) != typed.end())
      out.problems.push_back(fmt::format("special token {} comes out of plain text", dump_json(text)));
    else if (tokenizer.decode(std::vector{id}, false) != text)
      out.problems.push_back(fmt::format("special token {} decodes to another text", dump_json(text)));
  }
  return out;
}

}  // namespace

Result<Finding> check_tokenizer(VerifySubject& subject) {
  const Tokenizer& tokenizer = subject.engine.tokenizer();
  // Some tokenizers add a space before a text, and drop all leading spaces when they decode. For these, texts
  // are compared without leading spaces.
  const bool trims = tokenizer.leading_spaces_dropped() == INT_MAX;
  const auto trimmed = [&](std::string text) {
    return trims ? text.substr(std::min(text.find_first_not_of(' '), text.size())) : text;
  };
  std::vector<std::string> problems;
  for (const auto& [name, text] : kTexts) {
    const auto [whole, streamed] = round_trips(tokenizer, text);
    if (trimmed(whole) != trimmed(text))
      problems.push_back(fmt::format("{}: decodes to {}", name, dump_json(whole)));
    else if (streamed != whole)
      problems.push_back(fmt::format("{}: decodes to {} token by token", name, dump_json(streamed)));
  }
  const SpecialTokens special = check_special_tokens(tokenizer);
  problems.insert(problems.end(), special.problems.begin(), special.problems.end());
  return pass_unless(
      problems,
      fmt::format("{} texts and {} special tokens come back as they were{}; vocabulary of {}", kTexts.size(),
                  special.count, trims ? " (leading spaces aside)" : "", tokenizer.vocab_size()));
}

Result<Finding> check_template(VerifySubject& subject) {
  if (!subject.template_problem.empty())
    return Finding{Verdict::fail, "it cannot be used: " + subject.template_problem};
  const ChatTemplate* chat = subject.engine.chat_template();
  if (!chat) return Finding{Verdict::not_applicable, "the model has no chat template"};
  const Json system = message("system", "Answer in one word."), user = message("user", "Name a river."),
             answer = message("assistant", "Loire"), again = message("user", "Another one?");
  const Json tools = parse_json(kTools).value(), call = parse_json(kToolCall).value(),
             result = parse_json(kToolResult).value();
  // Templates without support for tools get the generic tool format, as in the server.
  const auto generic_tools = shows_tools(*chat) ? nullptr : with_tool_prompt(*chat);
  const struct {
    const char* name;
    Json messages;
    bool tools;
    bool may_refuse;  // some models have no system prompt, and their templates say so (raise_exception)
  } cases[] = {{"user", Json::array({user}), false, false},
               {"system + user", Json::array({system, user}), false, true},
               {"user + assistant + user", Json::array({user, answer, again}), false, false},
               {"tool call and result", Json::array({user, call, result}), true, true}};
  std::vector<std::string> problems, done;
  for (const auto& [name, messages, with_tools, may_refuse] : cases) {
    const bool generic = with_tools && generic_tools;
    const auto pieces = (generic ? *generic_tools : *chat).render(messages, with_tools ? tools : Json(), {});
    if (!pieces) {
      const std::string& error = pieces.error().message;
      // Errors in the template itself contain their position.
      const bool refused = may_refuse && error.find(", column ") == error.npos;
      (refused ? done : problems)
          .push_back(fmt::format("{}: {}: {}", name, refused ? "refused" : "failed", error));
      continue;
    }
    const std::string text = join(*pieces);
    bool complete = true;
    for (const Json& m : messages) complete &= text.find(string_at(m, "content")) != text.npos;
    if (complete)
      done.push_back(
          fmt::format("{}: {} tokens{}", name, subject.engine.tokenizer().encode(*pieces).size(),
                      generic ? " (the template knows no tools, the general format is used)" : ""));
    else
      problems.push_back(fmt::format("{}: the text of a message is missing in {}", name, dump_json(text)));
  }
  return pass_unless(problems, fmt::format("{}", fmt::join(done, "; ")));
}

Result<Finding> show_greedy_text(VerifySubject& subject) {
  if (const auto finding = too_long(subject, kFixedPromptTokens + kAnswerTokens)) return *finding;
  Finding finding{Verdict::info, "", "Greedy text (answers begin at ⏵):\n"};
  std::vector<std::string> likelihoods;
  const auto show = [&](const std::string& asked, bool chat) -> Result<void> {
    GenerationOptions options = greedy(kAnswerTokens);
    options.ignore_eos = !chat;
    options.logprobs = 0;
    TRY(const Answer answer, chat ? reply(subject, Json::array({message("user", asked)}), std::move(options))
                                  : go_on(subject, asked, std::move(options)));
    double sum = 0;
    for (const TokenLogprobs& token : answer.logprobs) sum += token.logprob;
    likelihoods.push_back(fmt::format("{:.2f}", sum / static_cast<double>(answer.logprobs.size())));
    finding.appendix +=
        fmt::format("\nAnswer {}:\n\n{}\n", likelihoods.size(), code_block(asked + "⏵" + answer.text));
    return {};
  };
  for (const char* text : kFixedPrompts) TRY_VOID(show(text, false));
  if (subject.engine.chat_template()) TRY_VOID(show(kQuestion, true));
  finding.details = fmt::format("{} answers, below; mean log-probability of their tokens: {}",
                                likelihoods.size(), fmt::join(likelihoods, ", "));
  return finding;
}

Result<Finding> check_speculation(VerifySubject& subject, DraftSource source) {
  if (const auto finding = too_long(subject, kFixedPromptTokens + kAnswerTokens)) return *finding;
  TRY_VOID(answer_plainly(subject));
  SpecMode mode;
  if (source != DraftSource::none) mode = {.automatic = false, .source = source, .depth = kDraftDepth};
  const auto& sources = subject.engine.info().draft_sources;
  const bool available = mode.automatic || std::ranges::find(sources, source) != sources.end();
  std::vector<std::string> problems;
  SpecCounters drafts;
  for (size_t i = 0; i < kFixedPrompts.size(); i++) {
    GenerationOptions options = greedy(kAnswerTokens);
    options.speculation = mode;
    const auto answer = go_on(subject, kFixedPrompts[i], std::move(options));
    if (!answer && !available) return Finding{Verdict::not_applicable, answer.error().message};
    if (!answer) return answer.error();
    drafts += answer->usage.speculation;
    if (const auto text = difference(answer->tokens, subject.plain[i]); !text.empty())
      problems.push_back(fmt::format("prompt {}: {}", i + 1, text));
  }
  // N-gram drafts need text that repeats itself.
  if (!mode.automatic && source != DraftSource::ngram && drafts.of(source).drafted == 0)
    problems.push_back("nothing was drafted");
  return pass_unless(problems, fmt::format("the same {} tokens as without, for {} prompts{}", kAnswerTokens,
                                           kFixedPrompts.size(),
                                           mode.automatic ? "" : "; " + acceptance(drafts.of(source))));
}

Result<Finding> check_cache(VerifySubject& subject) {
  if (const auto finding = too_long(subject, 2 * kCachedTokens)) return *finding;
  const TwoTurns turns{subject, filler(subject.engine.tokenizer(), kCachedTokens) + "\nWhat was painted?"};
  GenerationOptions uncached = greedy(kAnswerTokens / 2);
  uncached.ignore_eos = false;
  GenerationOptions cached = uncached;
  cached.cache = true;
  TRY(const Answer cold, turns.first(uncached));
  TRY(const Answer kept, turns.first(cached));
  TRY(const Answer again, turns.first(cached));
  TRY(const Answer cold_extended, turns.extended(cold.text, uncached));
  TRY(const Answer extended, turns.extended(cold.text, cached));
  std::vector<std::string> problems;
  const auto compare = [&](const char* name, const Answer& got, const Answer& wanted) {
    if (const auto text = difference(got.tokens, wanted.tokens); !text.empty())
      problems.push_back(fmt::format("{}: {}", name, text));
  };
  compare("first time with the cache on", kept, cold);
  compare("the same prompt again", again, cold);
  compare("with a further turn", extended, cold_extended);
  if (again.usage.cached_tokens == 0) problems.push_back("the same prompt again: nothing was cached");
  return pass_unless(
      problems,
      fmt::format("the same tokens as without the cache; {} of {} prompt tokens cached the second time, {} "
                  "of {} with a further turn",
                  again.usage.cached_tokens, again.usage.prompt_tokens, extended.usage.cached_tokens,
                  extended.usage.prompt_tokens));
}

Result<Finding> check_batch(VerifySubject& subject) {
  if (const auto finding = too_long(subject, kFixedPromptTokens + kAnswerTokens)) return *finding;
  TRY_VOID(answer_plainly(subject));
  std::vector<std::string> problems;
  for (const bool speculates : {false, true}) {
    TRY(const auto answers, answer_together(subject, SpecMode{.automatic = speculates}));
    for (size_t i = 0; i < answers.size(); i++)
      if (const auto text = difference(answers[i].tokens, subject.plain[i]); !text.empty())
        problems.push_back(
            fmt::format("speculation {}, prompt {}: {}", speculates ? "auto" : "off", i + 1, text));
  }
  return pass_unless(problems,
                     fmt::format("{} prompts at once, speculation off and auto: the same {} tokens as alone",
                                 kFixedPrompts.size(), kAnswerTokens));
}

Result<Finding> measure_speed(VerifySubject& subject) {
  if (const auto finding = too_long(subject, kSpeedTokens + kAnswerTokens)) return *finding;
  Engine& engine = subject.engine;
  std::vector<int> tokens = engine.tokenizer().encode(filler(engine.tokenizer(), kSpeedTokens), true);
  tokens.resize(std::min<size_t>(tokens.size(), kSpeedTokens));
  TRY(const Answer answer,
      run(subject, prepare_text(subject.preparer, std::move(tokens), greedy(kAnswerTokens))));
  return Finding{
      Verdict::info,
      fmt::format("prefill of {} tokens: {:.0f} tok/s; decode of {} tokens without drafts: {:.1f} tok/s",
                  answer.usage.prompt_tokens, prefill_rate(answer.usage), answer.usage.completion_tokens,
                  decode_rate(answer.usage))};
}

Result<Finding> measure_needle(VerifySubject& subject) {
  constexpr const char* kNumber = "48213";
  if (const auto finding = too_long(subject, kNeedleTokens + 2 * kNeedleThought)) return *finding;
  Engine& engine = subject.engine;
  const std::string text =
      filler(engine.tokenizer(), kNeedleTokens, fmt::format("The secret number is {}.", kNumber));
  GenerationOptions options = greedy(24);
  options.ignore_eos = false;
  const auto look = [&](const std::string& name, const Result<Answer>& answer) -> Result<std::string> {
    if (!answer) return answer.error();
    const bool found = answer->text.find(kNumber) != answer->text.npos;
    return fmt::format("{}: {} among {} tokens, {} of thought{}", name, found ? "found" : "not found",
                       answer->usage.prompt_tokens, answer->usage.thinking_tokens,
                       found ? "" : ", answer " + dump_json(answer->text));
  };
  const ChatTemplate* chat = engine.chat_template();
  if (!chat) {
    TRY(const auto line, look("plain text", go_on(subject, text + "\nThe secret number is", options)));
    return Finding{Verdict::info, line};
  }
  const Json messages =
      Json::array({message("user", text + "\n\nWhat is the secret number? Answer with the number.")});
  TRY(std::string lines, look("thinking off", reply(subject, messages, options)));
  if (chat->mentions("enable_thinking") && find_reasoning_tags(engine.tokenizer())) {
    TRY(const auto line,
        look("thinking on", reply(subject, messages, options, ThinkFlags{"on", kNeedleThought})));
    lines += "; " + line;
  }
  return Finding{Verdict::info, lines};
}

}  // namespace anabranch::cli
