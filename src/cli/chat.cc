// `chat`: a conversation in the terminal.
#include <editline/readline.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <optional>

#include "cli/partner.h"

namespace anabranch::cli {
namespace {

constexpr const char* kHelp =
    "/system TEXT   set the system message (empty: none) and start over\n"
    "/model MODEL   go on with another model (a path or a name), keeping the conversation\n"
    "/clear         forget the conversation\n"
    "/stats         what the last answer took\n"
    "/exit          leave (or Ctrl-D); Ctrl-C stops an answer\n";

std::optional<std::string> read_line(bool terminal) {
  if (!terminal) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  char* raw = readline("> ");
  if (!raw) return std::nullopt;
  std::string line = raw;
  if (!line.empty()) add_history(raw);
  std::free(raw);
  return line;
}

class Chat {
 public:
  explicit Chat(const ChatOptions& options) : options_(options) {}

  int run() {
    const bool terminal = isatty(STDIN_FILENO);
    auto partner = options_.url.empty() ? load_partner(options_) : connect_partner(options_);
    if (!partner) return fail(partner.error());
    partner_ = std::move(*partner);
    clear();
    if (terminal) fmt::print("{} - type a message, /help for commands\n", partner_->name());
    auto& interrupt = interrupt_flag();
    for (;;) {
      interrupt = false;
      const auto line = read_line(terminal);
      if (!line) {
        if (interrupt) continue;  // Ctrl-C at the prompt
        break;
      }
      if (line->empty()) continue;
      if (line->front() == '/') {
        if (!command(*line)) break;
        continue;
      }
      answer(*line, interrupt);
    }
    return 0;
  }

 private:
  void clear() {
    messages_ = Json::array();
    if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }

  // False to leave.
  bool command(const std::string& line) {
    const auto space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string rest =
        space == std::string::npos ? "" : line.substr(line.find_first_not_of(' ', space));
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/clear") {
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
    } else if (name == "/help") {
      fmt::print("{}", kHelp);
    } else {
      fmt::print("unknown command {}\n{}", line, kHelp);
    }
    return true;
  }

  void answer(const std::string& text, const std::atomic<bool>& interrupt) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    auto result = partner_->answer(messages_, interrupt);
    if (!result) {
      messages_.erase(messages_.size() - 1);  // the turn never happened
      fail(result.error());
      return;
    }
    last_ = std::move(*result);
    Json turn = {{"role", "assistant"}, {"content", last_->text}};
    if (!last_->reasoning.empty()) turn["reasoning_content"] = last_->reasoning;
    messages_.push_back(std::move(turn));
  }

  ChatOptions options_;
  std::unique_ptr<Partner> partner_;
  Json messages_ = Json::array();
  std::optional<Answer> last_;
};

}  // namespace

int run_chat(const ChatOptions& options) {
  return Chat(options).run();
}

}  // namespace anabranch::cli
