// `chat`: a conversation in the terminal.
#include <editline/readline.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <utility>

#include "cli/agent_loop.h"
#include "cli/chat_session.h"
#include "cli/image_files.h"
#include "mcp/text.h"

namespace anabranch::cli {
namespace {

constexpr const char* kHelp =
    "/system TEXT   set the system message (empty: none) and start over\n"
    "/model MODEL   go on with another model (a path or a name), keeping the conversation\n"
    "/image FILE    put an image before your next message\n"
    "/clear         forget the conversation; what is kept of it stays, and the next message begins another\n"
    "/stats         what the last answer took\n"
    "/exit          leave (or Ctrl-D); Ctrl-C stops an answer\n";
constexpr const char* kSessionHelp = "/title TEXT    name the kept conversation\n";
constexpr const char* kToolHelp =
    "/tools         what the MCP servers can do\n"
    "/resources     what they have to read; /resource URI puts it before your next message\n"
    "/prompts       what they can ask; /prompt NAME name=value ... asks it\n";

// prompt: of a terminal. keep: in the history.
std::optional<std::string> read_line(bool terminal, const char* prompt = "> ", bool keep = true) {
  if (!terminal) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  char* raw = readline(prompt);
  if (!raw) return std::nullopt;
  std::string line = raw;
  if (keep && !line.empty()) add_history(raw);
  std::free(raw);
  return line;
}

class Chat {
 public:
  explicit Chat(const ChatOptions& options) : options_(options) {}

  int run() {
    const bool terminal = isatty(STDIN_FILENO);
    if (const auto read = add_images(options_.images); !read) return fail(read.error());
    auto& interrupt = interrupt_flag();
    if (const auto opened = open_desk(terminal, interrupt); !opened) return fail(opened.error());
    auto partner = options_.url.empty() ? load_partner(options_) : connect_partner(options_);
    if (!partner) return fail(partner.error());
    partner_ = std::move(*partner);
    clear();
    if (const auto opened = open_session(terminal); !opened) return fail(opened.error());
    if (terminal) fmt::print("{} - type a message, /help for commands\n", partner_->name());
    if (desk_) desk_->refresh();
    if (terminal && desk_) fmt::print("{}\n", desk_->summary());
    for (;;) {
      interrupt = false;
      const auto line = read_line(terminal);
      if (!line) {
        if (interrupt) continue;  // Ctrl-C at the prompt
        break;
      }
      if (line->empty()) continue;
      if (line->front() == '/') {
        if (!command(*line, interrupt)) break;
        continue;
      }
      messages_.push_back(user_message(std::exchange(before_, "") + *line, std::exchange(images_, {})));
      answer(1, interrupt);
    }
    return 0;
  }

 private:
  Result<void> open_desk(bool terminal, const std::atomic<bool>& interrupt) {
    if (options_.mcp.config.empty()) return {};
    ToolDesk::Ask ask;
    if (terminal) ask = [](const std::string& question) { return read_line(true, question.c_str(), false); };
    TRY(desk_, ToolDesk::open(options_.mcp, std::move(ask), interrupt));
    return {};
  }

  Result<void> open_session(bool terminal) {
    if (!options_.keep) return {};
    TRY(session_, ChatSession::open(options_.sessions));
    if (!session_->session()) return {};
    TRY(messages_, session_->messages());
    if (!terminal) return {};
    fmt::print("{}, {} messages\n", session_->session()->title, messages_.size());
    for (size_t i = messages_.size() - std::min<size_t>(2, messages_.size()); i < messages_.size(); ++i)
      fmt::print("{}{}\n", messages_[i]["role"] == "user" ? "> " : "",
                 mcp::printable(string_at(kept_message(messages_[i]), "content")));
    return {};
  }

  Result<void> add_images(const std::vector<std::string>& paths) {
    TRY(auto parts, image_parts(paths));
    for (Json& part : parts) images_.push_back(std::move(part));
    return {};
  }

  void clear() {
    before_.clear();
    if (session_) session_->begin_anew();
    messages_ = Json::array();
    if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }

  // False to leave.
  bool command(const std::string& line, const std::atomic<bool>& interrupt) {
    const auto space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string rest =
        space == std::string::npos ? "" : line.substr(line.find_first_not_of(' ', space));
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/clear") {
      images_.clear();
      clear();
    } else if (name == "/system") {
      options_.system = rest;
      clear();
    } else if (name == "/stats") {
      fmt::print("{}\n", last_ ? describe(last_->usage) : "nothing was answered yet");
    } else if (name == "/model" && !rest.empty()) {
      if (const auto changed = partner_->change_model(rest); !changed)
        fail(changed.error());
      else
        fmt::print("{}\n", partner_->name());
      return !partner_->gone();
    } else if (name == "/image" && !rest.empty()) {
      if (const auto read = add_images({rest}); !read)
        fail(read.error());
      else
        fmt::print("{} image{} before your next message\n", images_.size(),
                   images_.size() == 1 ? " goes" : "s go");
    } else if (name == "/help") {
      fmt::print("{}{}{}", kHelp, session_ ? kSessionHelp : "", desk_ ? kToolHelp : "");
    } else if (name == "/title" && session_ && !rest.empty()) {
      if (const auto renamed = session_->rename(rest); !renamed) fail(renamed.error());
    } else if (desk_ && tool_command(name, rest, interrupt)) {
      return true;
    } else {
      fmt::print("unknown command {}\n{}", line, kHelp);
    }
    return true;
  }

  // Commands about MCP servers. False: it is none of them.
  bool tool_command(const std::string& name, const std::string& rest, const std::atomic<bool>& interrupt) {
    if (name == "/tools") {
      fmt::print("{}", desk_->list_tools());
    } else if (name == "/resources") {
      fmt::print("{}", desk_->list_resources());
    } else if (name == "/prompts") {
      fmt::print("{}", desk_->list_prompts());
    } else if (name == "/resource" && !rest.empty()) {
      const auto text = desk_->resource(rest);
      if (!text) return fail(text.error()), true;
      before_ += *text + "\n";
      fmt::print("{} bytes go before your next message\n", text->size());
    } else if (name == "/prompt" && !rest.empty()) {
      const auto messages = desk_->prompt(rest);
      if (!messages) return fail(messages.error()), true;
      if (messages->empty()) return true;
      for (const Json& message : *messages) messages_.push_back(message);
      if (messages->back()["role"] == "user") answer(messages->size(), interrupt);
    } else {
      return false;
    }
    return true;
  }

  // Answers the last message. added: how many messages are new, which go again after an error.
  void answer(size_t added, const std::atomic<bool>& interrupt) {
    const size_t known = messages_.size() - added;
    if (session_) session_->keep(messages_, nullptr, partner_->name());
    auto result = answer_with_tools(*partner_, desk_.get(), messages_, interrupt);
    if (!result) {
      messages_.erase(messages_.begin() + static_cast<ptrdiff_t>(known),
                      messages_.end());  // it never happened
      if (session_) session_->take_back(known);
      fail(result.error());
      return;
    }
    last_ = std::move(*result);
    if (session_) session_->keep(messages_, &*last_, partner_->name());
  }

  ChatOptions options_;
  std::unique_ptr<Partner> partner_;
  std::unique_ptr<ToolDesk> desk_;        // null: no --mcp-config
  std::unique_ptr<ChatSession> session_;  // null: nothing is kept
  Json messages_ = Json::array();
  std::string before_;        // what goes before the next message
  std::vector<Json> images_;  // likewise
  std::optional<Answer> last_;
};

}  // namespace

int run_chat(const ChatOptions& options) {
  return Chat(options).run();
}

}  // namespace anabranch::cli
