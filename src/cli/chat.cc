// `chat`: a conversation in the terminal.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "base/user_directory.h"
#include "cli/agent_loop.h"
#include "cli/chat_file.h"
#include "cli/chat_input.h"
#include "cli/chat_session.h"
#include "cli/chat_settings.h"
#include "cli/image_files.h"
#include "cli/print.h"
#include "mcp/text.h"

namespace anabranch::cli {
namespace {

std::string history_file(const ChatOptions& options) {
  const std::string directory = user_state_directory();
  return options.no_history || directory.empty() ? std::string() : directory + "/chat_history";
}

// Why an answer is incomplete; "": it is complete.
std::string ending_of(const Answer& answer, int max_tokens) {
  if (answer.usage.cut == "answer_loop") return "stopped: the answer repeated itself";
  if (answer.finish == FinishReason::cancelled) return "stopped";
  if (answer.finish != FinishReason::length) return "";
  return max_tokens >= 0 && answer.usage.completion_tokens >= max_tokens
             ? fmt::format("cut after {} tokens: /set max_tokens changes the limit", max_tokens)
             : "cut: the context is full. /clear begins anew, --context may allow more";
}

class Chat {
 public:
  explicit Chat(const ChatOptions& options)
      : options_(options), interrupt_(interrupt_flag()), input_(history_file(options), interrupt_) {}

  int run() {
    if (const auto read = add_images(options_.images); !read) return fail(read.error());
    if (const auto opened = open_desk(); !opened) return fail(opened.error());
    auto partner = options_.url.empty() ? load_partner(options_) : connect_partner(options_);
    if (!partner) return fail(partner.error());
    partner_ = std::move(*partner);
    clear();
    if (const auto opened = open_session(); !opened) return fail(opened.error());
    if (input_.is_terminal()) say("{} - type a message, /help for commands\n", partner_->name());
    if (desk_) desk_->refresh();
    if (input_.is_terminal() && desk_) say("{}\n", desk_->summary());
    if (input_.is_terminal()) catch_interrupts();
    while (step()) {
    }
    note_late_states();
    return input_.problem() ? fail(*input_.problem()) : 0;
  }

 private:
  // A command: its argument, its help, and whether it is available.
  struct Command {
    const char* name;
    const char* argument;  // as shown in the help; in brackets if it is optional
    const char* help;
    bool (Chat::*run)(const std::string& rest);  // returns false to leave the chat
    bool (Chat::*there)() const = nullptr;
  };
  static std::span<const Command> commands();

  bool has_session() const { return session_ != nullptr; }
  bool has_desk() const { return desk_ != nullptr; }

  // Handles one message or command. Returns false to leave the chat.
  bool step() {
    interrupt_ = false;
    auto text = input_.message();
    if (!text) return interrupt_;  // Ctrl-C at the prompt, or the end of input
    if (text->find_first_not_of(" \t\n") == text->npos) return true;
    if (*text == "exit" || *text == "quit") return false;
    if (text->front() == '/') {
      if (const auto known = command(*text)) return *known;
    }
    ask(*text);
    return true;
  }

  // Runs a command; returns false to leave the chat. nullopt: the text is no command but a message that
  // begins with a path.
  std::optional<bool> command(const std::string& text) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string name = text.substr(0, end);
    const size_t begin = std::min(text.find_first_not_of(" \n", end), text.size());
    const std::string rest = text.substr(begin);
    for (const Command& one : commands()) {
      if (name != one.name || (one.there && !(this->*one.there)())) continue;
      if (!*one.argument && text.find('\n') != text.npos)
        return std::nullopt;  // a pasted text that begins with a path
      if (rest.empty() && *one.argument && *one.argument != '[') {
        say("usage: {} {}\n", one.name, one.argument);
        return true;
      }
      return (this->*one.run)(rest);
    }
    if (name.find('/', 1) != name.npos || text.find('\n') != text.npos) return std::nullopt;
    say("unknown command {}: /help lists them (a message that begins with a slash needs a space before it)\n",
        name);
    return true;
  }

  void ask(const std::string& text) {
    messages_.push_back(user_message(std::exchange(before_, "") + text, std::exchange(images_, {})));
    answer(1);
  }

  Result<void> open_desk() {
    if (options_.mcp.config.empty()) return {};
    ToolDesk::Ask ask;
    if (input_.is_terminal()) ask = [this](const std::string& question) { return input_.line(question); };
    TRY(desk_, ToolDesk::open(options_.mcp, std::move(ask), interrupt_));
    return {};
  }

  Result<void> open_session() {
    if (!options_.keep) return {};
    TRY(session_, ChatSession::open(options_.sessions));
    if (!session_->session()) return {};
    TRY(messages_, session_->messages());
    if (!input_.is_terminal()) return {};
    say("{}, {} messages\n", session_->session()->title, messages_.size());
    show_last();
    return {};
  }

  void show_last() const {
    for (size_t i = messages_.size() - std::min<size_t>(2, messages_.size()); i < messages_.size(); ++i)
      say_lines((messages_[i]["role"] == "user" ? "> " : "") +
                string_at(kept_message(messages_[i]), "content") + "\n");
  }

  Result<void> add_images(const std::vector<std::string>& paths) {
    TRY(auto parts, image_parts(paths));
    for (Json& part : parts) images_.push_back(std::move(part));
    return {};
  }

  // Notes the states that were read ahead for the session, before it ends or gets another model.
  void note_late_states() {
    if (session_) session_->note(partner_->late_states());
  }

  void clear() {
    note_late_states();
    before_.clear();
    if (session_) session_->begin_anew();
    messages_ = Json::array();
    if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }

  // Answers the last message. added: the number of new messages, which are removed after an error. False: it
  // failed.
  bool answer(size_t added) {
    const size_t known = messages_.size() - added;
    if (session_) session_->keep(messages_, nullptr, partner_->name());
    // Without a terminal, Ctrl-C stops an answer. At any other time it ends the program.
    std::optional<InterruptsCaught> caught;
    if (!input_.is_terminal()) caught.emplace();
    AnswerOptions wanted;
    wanted.sampling = options_.sampling;
    wanted.thinking = options_.thinking;
    auto result = answer_with_tools(*partner_, desk_.get(), messages_, wanted, interrupt_);
    if (caught) caught->taken();
    if (!result) {
      take_back(known);  // as if it had never been asked
      fail(result.error());
      return false;
    }
    last_ = std::move(*result);
    if (const std::string ending = ending_of(*last_, options_.sampling.max_tokens); !ending.empty())
      say(stderr, "({})\n", ending);
    if (session_) session_->keep(messages_, &*last_, partner_->name());
    return true;
  }

  void take_back(size_t first) {
    messages_.erase(messages_.begin() + static_cast<ptrdiff_t>(first), messages_.end());
    if (session_) session_->take_back(first);
  }

  // Index of the user's last message; the number of messages if there is none.
  size_t last_question() const {
    for (size_t i = messages_.size(); i-- > 0;)
      if (messages_[i]["role"] == "user") return i;
    return messages_.size();
  }

  bool help(const std::string&) {
    for (const Command& one : commands())
      if (!one.there || (this->*one.there)())
        say("{:<24} {}\n", fmt::format("{} {}", one.name, one.argument), one.help);
    say("\nCtrl-C stops an answer, Ctrl-D leaves. Alt+Enter begins a new line; so does a backslash at a "
        "line's end, "
        "and a text\nbetween two \"\"\" may have any number of lines.\n");
    return true;
  }
  bool leave(const std::string&) { return false; }
  bool forget(const std::string&) {
    images_.clear();
    clear();
    return true;
  }
  bool set_system(const std::string& rest) {
    options_.system = rest;
    clear();
    return true;
  }
  bool show_stats(const std::string&) {
    say("{}\n", last_ ? describe(last_->usage) : "nothing was answered yet");
    return true;
  }
  bool change_model(const std::string& rest) {
    note_late_states();
    if (const auto changed = partner_->change_model(rest); !changed)
      fail(changed.error());
    else
      say("{}\n", partner_->name());
    return !partner_->gone();
  }
  bool add_image(const std::string& rest) {
    if (const auto read = add_images({rest}); !read)
      fail(read.error());
    else
      say("{} image{} before your next message\n", images_.size(), images_.size() == 1 ? " goes" : "s go");
    return true;
  }
  bool regenerate(const std::string&) {
    const size_t question = last_question();
    if (question == messages_.size()) return say("there is nothing to answer yet\n"), true;
    const Json before = messages_;
    take_back(question);
    // The same seed would give the same answer.
    auto& seed = options_.sampling.seed;
    seed = seed ? *seed + 1 : std::random_device{}();
    messages_.push_back(before[question]);
    if (answer(1)) return true;
    messages_ = before;
    if (session_) session_->keep(messages_, nullptr, partner_->name());
    return true;
  }
  bool undo(const std::string&) {
    const size_t question = last_question();
    if (question == messages_.size()) return say("there is nothing to take back\n"), true;
    take_back(question);
    say("your last message and its answer are taken back\n");
    return true;
  }
  bool set(const std::string& rest) {
    if (rest.empty()) return say_lines(list_settings(options_.sampling)), true;
    const size_t end = std::min(rest.find_first_of(" ="), rest.size());
    const size_t begin = std::min(rest.find_first_not_of(" =", end), rest.size());
    if (const auto changed = change_setting(options_.sampling, rest.substr(0, end), rest.substr(begin));
        !changed)
      fail(changed.error());
    return true;
  }
  bool think(const std::string& rest) {
    if (rest == "on" || rest == "off" || rest == "auto")
      options_.thinking.mode = rest;
    else if (!rest.empty())
      say("usage: /think on, off or auto\n");
    else
      say("thinking is {}\n", options_.thinking.mode);
    return true;
  }
  bool save(const std::string& rest) {
    if (const auto saved = save_messages(rest, messages_); !saved)
      fail(saved.error());
    else
      say("{} messages are in {}\n", messages_.size(), rest);
    return true;
  }
  bool load(const std::string& rest) {
    auto loaded = load_messages(rest);
    if (!loaded) return fail(loaded.error()), true;
    forget("");
    messages_ = std::move(*loaded);
    say("{} messages\n", messages_.size());
    show_last();
    return true;
  }
  bool edit(const std::string& rest) {
    if (!input_.is_terminal()) return say("/edit needs a terminal\n"), true;
    std::string problem;
    const auto text = terminal::edit_text(rest, problem);
    if (!text) return say("{}\n", problem), true;
    if (text->find_first_not_of(" \t\n") == text->npos) return say("nothing was written\n"), true;
    say_lines("> " + *text + "\n");
    ask(*text);
    return true;
  }
  bool rename(const std::string& rest) {
    if (const auto renamed = session_->rename(rest); !renamed) fail(renamed.error());
    return true;
  }
  bool list_tools(const std::string&) { return say_lines(desk_->list_tools()), true; }
  bool list_resources(const std::string&) { return say_lines(desk_->list_resources()), true; }
  bool list_prompts(const std::string&) { return say_lines(desk_->list_prompts()), true; }
  bool add_resource(const std::string& rest) {
    const auto text = desk_->resource(rest);
    if (!text) return fail(text.error()), true;
    before_ += *text + "\n";
    say("{} bytes go before your next message\n", text->size());
    return true;
  }
  bool ask_prompt(const std::string& rest) {
    const auto messages = desk_->prompt(rest);
    if (!messages) return fail(messages.error()), true;
    if (messages->empty()) return true;
    for (const Json& message : *messages) messages_.push_back(message);
    if (messages->back()["role"] == "user") answer(messages->size());
    return true;
  }

  ChatOptions options_;
  std::atomic<bool>& interrupt_;
  ChatInput input_;
  std::unique_ptr<Partner> partner_;
  std::unique_ptr<ToolDesk> desk_;        // null: no --mcp-config
  std::unique_ptr<ChatSession> session_;  // null: the chat is not stored
  Json messages_ = Json::array();
  std::string before_;        // text to put before the next message
  std::vector<Json> images_;  // images to put before the next message
  std::optional<Answer> last_;
};

std::span<const Chat::Command> Chat::commands() {
  static constexpr Command kCommands[] = {
      {"/regenerate", "", "answer your last message again", &Chat::regenerate},
      {"/undo", "", "take back your last message and its answer", &Chat::undo},
      {"/edit", "[TEXT]", "write a message in an editor ($VISUAL, $EDITOR)", &Chat::edit},
      {"/set", "[NAME VALUE]", "change temperature, top_p, max_tokens ...; without a name: list them",
       &Chat::set},
      {"/think", "[on|off|auto]", "whether the model thinks before it answers", &Chat::think},
      {"/system", "[TEXT]", "set the system message (empty: none) and start over", &Chat::set_system},
      {"/model", "MODEL", "go on with another model (a path or a name), keeping the conversation",
       &Chat::change_model},
      {"/image", "FILE", "put an image before your next message", &Chat::add_image},
      {"/save", "FILE", "write the conversation as JSON", &Chat::save},
      {"/load", "FILE", "go on with a conversation that was saved", &Chat::load},
      {"/clear", "", "forget the conversation; what is kept of it stays, and the next message begins another",
       &Chat::forget},
      {"/stats", "", "what the last answer took", &Chat::show_stats},
      {"/title", "TEXT", "name the kept conversation", &Chat::rename, &Chat::has_session},
      {"/tools", "", "what the MCP servers can do", &Chat::list_tools, &Chat::has_desk},
      {"/resources", "", "what they have to read", &Chat::list_resources, &Chat::has_desk},
      {"/resource", "URI", "put it before your next message", &Chat::add_resource, &Chat::has_desk},
      {"/prompts", "", "what they can ask", &Chat::list_prompts, &Chat::has_desk},
      {"/prompt", "NAME name=value ...", "ask it", &Chat::ask_prompt, &Chat::has_desk},
      {"/help", "", "this", &Chat::help},
      {"/exit", "", "leave (also exit, /quit, Ctrl-D)", &Chat::leave},
      {"/quit", "", "leave", &Chat::leave},
      {"/bye", "", "leave", &Chat::leave}};
  return kCommands;
}

}  // namespace

int run_chat(const ChatOptions& options) {
  return Chat(options).run();
}

}  // namespace anabranch::cli
