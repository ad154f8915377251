#include "cli/tool_desk.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/nearest.h"
#include "base/outside_text.h"
#include "cli/print.h"
#include "mcp/text.h"

namespace anabranch::cli {
namespace {

constexpr size_t kShownResult = 160, kShownDescription = 100;
constexpr size_t kMostArguments = 64 << 10;  // bytes; no user reads more before agreeing
constexpr size_t kPage = 1600;               // bytes; about 20 lines of a terminal
constexpr int kPageLines = 20;
constexpr const char* kMore = "Enter shows more, [n] does not run it: ";
constexpr const char* kQuestion = "Run it? [y]es, [a]lways this tool, [n]o, ne[v]er this tool: ";

// Prints what the tools do to stderr, dimmed on a terminal, because stdout has the answer.
void tell(const std::string& line) {
  const bool colour = isatty(STDERR_FILENO);
  if (colour) say(stderr, "\033[2m");
  say_lines(stderr, line);
  if (colour) say(stderr, "\033[0m");
  say(stderr, "\n");
}

// All arguments, with invisible characters escaped, so that the user sees exactly what will run.
std::string shown_arguments(const Json& arguments) {
  const std::string line = dump_json(arguments);
  return escape_invisible(line.size() <= 200 ? line : dump_json(arguments, 2));
}

// The end of the first page of a longer text: after kPageLines lines, or at a character boundary after kPage
// bytes, preferably after a line feed in the page's second half.
size_t page_end(std::string_view text) {
  const std::string_view page = mcp::beginning(text, kPage);
  int lines = 0;
  for (size_t at = 0; at < page.size(); ++at)
    if (page[at] == '\n' && ++lines == kPageLines) return at + 1;
  const size_t line = page.rfind('\n');
  return page.size() == text.size() || line == page.npos || line < kPage / 2 ? page.size() : line + 1;
}

std::string full_name(const mcp::Tool& tool) {
  return mcp::one_line(escape_invisible(tool.server + "." + tool.name), kShownResult);
}

std::string row(const std::string& name, const std::string& text) {
  const std::string line = escape_invisible(text.substr(0, text.find('\n')));
  return fmt::format("  {:<28} {}\n", name, mcp::one_line(line, kShownDescription));
}

// Takes the next word, without quotes around it or a part of it; the remaining text stays in `rest`.
std::string next_word(std::string& rest) {
  rest.erase(0, std::min(rest.find_first_not_of(' '), rest.size()));
  std::string word;
  bool quoted = false;
  size_t at = 0;
  for (; at < rest.size() && (quoted || rest[at] != ' '); at++) {
    if (rest[at] == '"')
      quoted = !quoted;
    else
      word += rest[at];
  }
  rest.erase(0, at);
  return word;
}

}  // namespace

ToolDesk::ToolDesk(const McpFlags& flags, std::vector<mcp::ServerConfig> configs, Ask ask,
                   const std::atomic<bool>& interrupt)
    : limits_(flags.limits),
      ask_(std::move(ask)),
      cancelled_([&interrupt] { return interrupt.load(); }),
      servers_(std::move(configs), flags.server_limits) {
  for (const std::string& name : flags.allow) consent_.allow(name);
}

Result<std::unique_ptr<ToolDesk>> ToolDesk::open(const McpFlags& flags, Ask ask,
                                                 const std::atomic<bool>& interrupt) {
  TRY(auto configs, mcp::read_config(flags.config));
  std::unique_ptr<ToolDesk> desk(new ToolDesk(flags, std::move(configs), std::move(ask), interrupt));
  const auto names = desk->servers_.names();
  for (const std::string& allowed : flags.allow)
    if (std::none_of(names.begin(), names.end(), [&](const std::string& name) {
          return allowed == name || allowed.starts_with(name + ".");
        }))
      return make_error(ErrorKind::invalid, "--mcp-allow {}: there is no such server in {}{}", allowed,
                        flags.config, did_you_mean(allowed.substr(0, allowed.find('.')), names));
  if (!flags.log.empty()) TRY_VOID(desk->servers_.log_calls_to(flags.log));
  return desk;
}

void ToolDesk::refresh(bool try_failed) {
  mcp::Toolbox box;
  for (const auto& state : servers_.states()) {
    if (state.state == mcp::ServerState::State::failed && !try_failed) continue;
    if (const auto tools = servers_.tools(state.name, cancelled_))
      for (const mcp::Tool& tool : *tools) box.add(tool);
  }
  toolbox_ = std::move(box);
}

Json ToolDesk::functions() const {
  return toolbox_.empty() ? Json() : toolbox_.functions();
}

mcp::Permission ToolDesk::ask(const mcp::Tool& tool) {
  for (;;) {
    const auto line = ask_(kQuestion);
    const std::string answer = line && !cancelled_() ? *line : "n";
    if (answer == "y" || answer == "yes") return mcp::Permission::allow;
    if (answer == "a" || answer == "v" || answer == "always" || answer == "never")
      consent_.remember(tool, answer[0] == 'a' ? mcp::Permission::allow : mcp::Permission::refuse);
    if (answer[0] == 'a') return mcp::Permission::allow;
    if (answer == "v" || answer == "never" || answer == "n" || answer == "no") return mcp::Permission::refuse;
  }
}

// Shows a text page by page. False: the user does not want to see the rest.
bool ToolDesk::show_pages(std::string_view text) {
  for (;;) {
    const size_t end = page_end(text);
    tell(std::string(text.substr(0, end)));
    text.remove_prefix(end);
    if (text.empty()) return true;
    const auto answer = ask_(kMore);
    if (!answer || cancelled_() || answer->starts_with('n') || answer->starts_with('v')) return false;
  }
}

std::optional<std::string> ToolDesk::refusal(const mcp::Tool& tool, const Json& arguments) {
  mcp::Permission permission = consent_.of(tool);
  const std::string text = shown_arguments(arguments);
  if (permission != mcp::Permission::ask || !ask_) {
    tell(fmt::format("{} {}", full_name(tool), text.size() <= kPage ? text : shown(text, kPage)));
  } else if (text.size() > kMostArguments) {
    tell(fmt::format("{}: its arguments have {} bytes, more than can be shown: not run", full_name(tool),
                     text.size()));
    return "the arguments are too long to be shown to the user, who must allow the call; make them shorter";
  } else if (!show_pages(full_name(tool) + " " + text)) {
    tell("not run");
    return "the user did not allow this call";
  }
  if (permission == mcp::Permission::ask && !ask_) {
    tell(
        fmt::format("not run: without a terminal to ask on, --mcp-allow {} would allow it", full_name(tool)));
    return "the user is not there to allow this call";
  }
  if (permission == mcp::Permission::ask) permission = ask(tool);
  if (permission == mcp::Permission::allow) return std::nullopt;
  tell("not run");
  return "the user did not allow this call";
}

ToolDesk::Outcome ToolDesk::run(const ToolCall& call, mcp::AgentBudget& budget) {
  const auto answer = [&](bool is_error, const std::string& text) {
    const std::string out =
        mcp::text_for_model(is_error, std::string(mcp::beginning(text, budget.bytes_left())));
    budget.add_call(out.size());
    return Outcome{out, is_error};
  };
  const mcp::Tool* found = toolbox_.find(call.name);
  if (!found) {
    tell("the model called a tool that is not there: " + mcp::one_line(call.name, kShownResult));
    return answer(true, "there is no tool '" + mcp::one_line(call.name, kShownResult) +
                            "'. There are: " + toolbox_.names());
  }
  const mcp::Tool tool = *found;
  const auto arguments = parse_json(call.arguments.empty() ? "{}" : call.arguments);
  if (!arguments || !arguments->is_object()) return answer(true, "the arguments are no JSON object");
  const double asked = now_seconds();
  const auto refused = refusal(tool, *arguments);
  const double began = now_seconds();
  budget.add_pause(began - asked);
  if (refused) return answer(true, *refused);
  const mcp::CallResult result = servers_.call(
      tool, *arguments, [&] { return cancelled_() || budget.seconds_left(now_seconds()) <= 0; });
  tell(fmt::format("{} after {:.2f} s, {} bytes: {}", result.is_error ? "failed" : "answered", result.seconds,
                   result.text.size(), mcp::one_line(result.text, kShownResult)));
  return answer(result.is_error, result.text);
}

std::string ToolDesk::summary() const {
  size_t tools = 0, servers = 0;
  for (const auto& state : servers_.states())
    if (state.state == mcp::ServerState::State::connected) {
      servers++;
      tools += state.tools.items.size();
    }
  return fmt::format("{} tool{} of {} MCP server{}; /tools lists them", tools, tools == 1 ? "" : "s", servers,
                     servers == 1 ? "" : "s");
}

std::string ToolDesk::list_tools() {
  refresh(true);
  std::string out;
  for (const auto& state : servers_.states()) {
    out += mcp::one_line(state.name, kShownResult);
    if (!state.error.empty()) out += ": " + mcp::one_line(state.error, 500);
    out += '\n';
    for (const mcp::Tool& tool : state.tools.items) {
      const auto permission = consent_.of(tool);
      out += row(tool.name, (permission == mcp::Permission::allow    ? "(allowed) "
                             : permission == mcp::Permission::refuse ? "(refused) "
                                                                     : "") +
                                tool.description);
    }
  }
  return out;
}

std::string ToolDesk::list_resources() {
  std::string out;
  for (const std::string& name : servers_.names()) {
    const auto resources = servers_.resources(name, cancelled_);
    if (!resources) out += mcp::one_line(resources.error().message, 500) + "\n";
    if (resources)
      for (const auto& one : *resources) out += row(one.uri, one.title.empty() ? one.name : one.title);
  }
  return out.empty() ? "no server has resources\n" : out;
}

std::string ToolDesk::list_prompts() {
  std::string out;
  for (const std::string& name : servers_.names()) {
    const auto prompts = servers_.prompts(name, cancelled_);
    if (!prompts) out += mcp::one_line(prompts.error().message, 500) + "\n";
    if (!prompts) continue;
    for (const auto& one : *prompts) {
      std::string usage = one.name;
      for (const auto& argument : one.arguments)
        usage += argument.required ? " " + argument.name + "=..." : " [" + argument.name + "=...]";
      out += row(usage, one.description);
    }
  }
  return out.empty() ? "no server has prompts\n" : out;
}

Result<std::string> ToolDesk::resource(const std::string& words) {
  std::string rest = words;
  std::string server = next_word(rest), uri = next_word(rest);
  if (uri.empty()) {
    uri = std::exchange(server, "");
    for (const std::string& name : servers_.names())
      if (const auto resources = servers_.resources(name, cancelled_); resources && server.empty())
        for (const auto& one : *resources)
          if (one.uri == uri) server = name;
  }
  if (server.empty())
    return make_error(
        ErrorKind::not_found,
        "no server lists the resource '{}': /resources lists them; /resource SERVER URI asks for others",
        mcp::one_line(uri, kShownResult));
  TRY(const mcp::Output output, servers_.read_resource(server, uri, cancelled_));
  return fmt::format("Resource {}:\n{}\n", uri, output.text);
}

Result<Json> ToolDesk::prompt(const std::string& words) {
  std::string rest = words;
  const std::string wanted = next_word(rest);
  std::map<std::string, std::string> arguments;
  while (rest.find_first_not_of(' ') != rest.npos) {
    const std::string word = next_word(rest);
    const size_t equals = word.find('=');
    if (equals == word.npos)
      return make_error(ErrorKind::invalid, "'{}' is no argument: write name=value, or name=\"two words\"",
                        word);
    arguments[word.substr(0, equals)] = word.substr(equals + 1);
  }
  for (const std::string& name : servers_.names()) {
    const auto prompts = servers_.prompts(name, cancelled_);
    if (!prompts) continue;
    for (const auto& one : *prompts)
      if (one.name == wanted || name + "." + one.name == wanted)
        return servers_.get_prompt(name, one.name, arguments, cancelled_);
  }
  return make_error(ErrorKind::not_found, "no server has the prompt '{}': /prompts lists them",
                    mcp::one_line(wanted, kShownResult));
}

}  // namespace anabranch::cli
