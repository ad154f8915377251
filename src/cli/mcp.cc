// `mcp`: offers the model as a tool to other programs.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <csignal>

#include "cli/chat_session.h"
#include "cli/mcp_sessions.h"
#include "cli/partner.h"
#include "mcp/stdio_server.h"

namespace anabranch::cli {
namespace {

constexpr int kMaxTokens = 1 << 27;

Json ask_schema() {
  return {{"type", "object"},
          {"properties",
           {{"prompt", {{"type", "string"}, {"description", "The question or task, with all that it needs"}}},
            {"system", {{"type", "string"}, {"description", "A system message"}}},
            {"max_tokens",
             {{"type", "integer"},
              {"minimum", 1},
              {"description", "Tokens of answer at most, thoughts not counted"}}},
            {"thinking",
             {{"type", "string"},
              {"enum", {"auto", "on", "off"}},
              {"description", "Whether the model thinks before it answers (auto: as the question needs)"}}}}},
          {"required", {"prompt"}},
          {"additionalProperties", false}};
}

// The arguments of `ask`.
struct Question {
  Json messages = Json::array();
  AnswerOptions options;
};

Result<Question> read_question(const Json& arguments, const ChatOptions& defaults) {
  const auto text = [&](const char* key) -> Result<std::string> {
    const auto at = arguments.find(key);
    if (at == arguments.end()) return std::string();
    if (!at->is_string()) return make_error(ErrorKind::invalid, "'{}' must be a string", key);
    return at->get<std::string>();
  };
  for (const auto& [key, value] : arguments.items())
    if (!ask_schema()["properties"].contains(key))
      return make_error(ErrorKind::invalid, "there is no argument '{}': prompt, system, max_tokens, thinking",
                        key);
  TRY(const std::string prompt, text("prompt"));
  TRY(std::string system, text("system"));
  TRY(const std::string thinking, text("thinking"));
  if (prompt.empty()) return make_error(ErrorKind::invalid, "'prompt' is missing or empty");
  Question question;
  if (system.empty()) system = defaults.system;
  if (!system.empty()) question.messages.push_back({{"role", "system"}, {"content", system}});
  question.messages.push_back({{"role", "user"}, {"content", prompt}});
  question.options.silent = true;
  if (!thinking.empty()) {
    if (thinking != "auto" && thinking != "on" && thinking != "off")
      return make_error(ErrorKind::invalid, "'thinking' must be auto, on or off");
    question.options.thinking = ThinkFlags{thinking, defaults.thinking.max_tokens};
  }
  if (const auto most = arguments.find("max_tokens"); most != arguments.end()) {
    if (!most->is_number_integer() || *most < 1 || *most > kMaxTokens)
      return make_error(ErrorKind::invalid, "'max_tokens' must be an integer from 1 to {}", kMaxTokens);
    question.options.max_tokens = most->get<int>();
  }
  return question;
}

Result<std::string> ask(Partner& partner, const ChatOptions& defaults, const mcp::ServedCall& call) {
  TRY(Question question, read_question(call.arguments, defaults));
  question.options.progress = [&](int tokens) { call.progress(tokens, fmt::format("{} tokens", tokens)); };
  TRY(const Answer answer, partner.answer(question.messages, question.options, call.cancelled));
  return answer.text;
}

// Makes the table of tools. store: null for none.
std::vector<mcp::ServedTool> tools_of(Partner& partner, const ChatOptions& options, SessionStore* store) {
  std::vector<mcp::ServedTool> tools = {
      {"ask", "Ask the model",
       fmt::format("Asks the language model {} and returns its answer", partner.name()), ask_schema(), true,
       [&](const mcp::ServedCall& call) { return ask(partner, options, call); }},
  };
  if (store) tools.push_back(sessions_tool(*store));
  return tools;
}

// Reserves standard output for messages: whatever else is printed goes to stderr. Returns the file descriptor
// to write messages to.
Result<int> take_standard_output() {
  std::fflush(stdout);
  const int output = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (output < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    return make_error(ErrorKind::io, "standard output cannot be used");
  return output;
}

Result<void> serve(const ChatOptions& options) {
  TRY(const int output, take_standard_output());
  std::signal(SIGPIPE, SIG_IGN);
  TRY(const auto partner, options.url.empty() ? load_partner(options) : connect_partner(options));
  std::unique_ptr<SessionStore> store;
  if (options.keep) {
    TRY(const std::string directory, session_directory(options.sessions.directory));
    TRY(store, SessionStore::open(directory, {}));
  }
  const auto& interrupt = catch_interrupts();
  return mcp::serve_stdio("anabranch", ANABRANCH_VERSION, tools_of(*partner, options, store.get()),
                          STDIN_FILENO, output, [&] { return interrupt.load(); });
}

}  // namespace

int run_mcp(const ChatOptions& options) {
  const auto served = serve(options);
  return served ? 0 : fail(served.error());
}

}  // namespace anabranch::cli
