#include "cli/completions.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace anabranch::cli {
namespace {

// Flags whose values are models.
constexpr std::string_view kModelFlags[] = {"--model", "-m", "--draft", "--mtp-from"};

struct FlagOfCommand {
  std::vector<std::string> names;    // with their dashes
  std::vector<std::string> choices;  // allowed values; empty: any
  bool takes_value = false;
  std::string help;  // first sentence of its help
};

struct Command {
  std::string name, help;  // "": the program itself
  std::vector<FlagOfCommand> flags;
};

std::string first_sentence(std::string text) {
  text = text.substr(0, std::min({text.find(". "), text.find("; "), text.find(" (")}));
  std::erase(text, '\'');
  return text;
}

// "{a,b}" at the end of a flag's type, as CLI11 describes IsMember.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{'), close = type.find('}');
  std::vector<std::string> out;
  if (open == type.npos || close == type.npos) return out;
  for (size_t at = open + 1; at < close;) {
    const size_t end = std::min(type.find(',', at), close);
    out.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

Command read(const CLI::App& app, const std::string& name) {
  Command out{name, first_sentence(app.get_description()), {}};
  for (const CLI::Option* option : app.get_options()) {
    FlagOfCommand flag{{},
                       choices_of(*option),
                       option->get_items_expected_max() > 0,
                       first_sentence(option->get_description())};
    for (const std::string& text : option->get_lnames()) flag.names.push_back("--" + text);
    for (const std::string& text : option->get_snames()) flag.names.push_back("-" + text);
    if (!flag.names.empty()) out.flags.push_back(std::move(flag));
  }
  return out;
}

// The program, then its sub-commands. Sub-commands of a sub-command are treated as its words.
std::vector<Command> read_all(const CLI::App& app) {
  std::vector<Command> out = {read(app, "")};
  for (const CLI::App* command : app.get_subcommands({})) {
    Command read_command = read(*command, command->get_name());
    for (const CLI::App* inner : command->get_subcommands({}))
      read_command.flags.push_back(
          {{inner->get_name()}, {}, false, first_sentence(inner->get_description())});
    out.push_back(std::move(read_command));
  }
  return out;
}

std::string words_of(const Command& command) {
  std::vector<std::string> words;
  for (const FlagOfCommand& flag : command.flags)
    words.insert(words.end(), flag.names.begin(), flag.names.end());
  return fmt::format("{}", fmt::join(words, " "));
}

// Shell cases for the word before the one that is being completed.
std::string value_cases(const std::vector<Command>& commands) {
  std::string out = fmt::format("    {}) values=\"$(anabranch ls --names 2>/dev/null)\"; files=1 ;;\n",
                                fmt::join(kModelFlags, "|"));
  std::vector<std::string> done(std::begin(kModelFlags), std::end(kModelFlags));
  for (const Command& command : commands) {
    for (const FlagOfCommand& flag : command.flags) {
      const std::string& name = flag.names.front();
      if (!flag.takes_value || std::ranges::find(done, name) != done.end()) continue;
      done.push_back(name);
      const std::string pattern = fmt::format("{}", fmt::join(flag.names, "|"));
      out += flag.choices.empty()
                 ? fmt::format("    {}) files=1 ;;\n", pattern)
                 : fmt::format("    {}) values=\"{}\" ;;\n", pattern, fmt::join(flag.choices, " "));
    }
  }
  return out;
}

std::string command_cases(const std::vector<Command>& commands) {
  std::string names, out;
  for (const Command& command : commands) names += command.name.empty() ? "" : command.name + " ";
  for (const Command& command : commands)
    out += fmt::format("    {}) values=\"{}{}\"{} ;;\n", command.name.empty() ? "''" : command.name,
                       command.name.empty() ? names : "", words_of(command),
                       command.name.empty() ? "" : "; files=1");
  return out;
}

// bash and zsh choose the words in the same way.
std::string chooser(const std::vector<Command>& commands) {
  return fmt::format("  case $previous in\n{}    *)\n  case $command in\n{}  esac ;;\n  esac\n",
                     value_cases(commands), command_cases(commands));
}

std::string bash(const std::vector<Command>& commands) {
  constexpr const char* kBegin = R"sh(_anabranch() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command='' values='' files='' word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    if [[ $word != -* ]]; then command=$word; break; fi
  done
)sh";
  constexpr const char* kEnd = R"sh(  COMPREPLY=($(compgen -W "$values" -- "$current"))
  if [[ $files && $current != -* ]]; then COMPREPLY+=($(compgen -f -- "$current")); fi
  __ltrim_colon_completions "$current" 2>/dev/null
}
complete -o filenames -F _anabranch anabranch
)sh";
  return kBegin + chooser(commands) + kEnd;
}

std::string zsh(const std::vector<Command>& commands) {
  constexpr const char* kBegin = R"sh(#compdef anabranch
_anabranch() {
  local previous=${words[CURRENT - 1]} command='' values='' files='' word
  for word in "${(@)words[2,CURRENT - 1]}"; do
    if [[ $word != -* ]]; then command=$word; break; fi
  done
)sh";
  constexpr const char* kEnd = R"sh(  compadd -- ${=values}
  if [[ -n $files ]]; then _files; fi
}
if [[ $funcstack[1] == _anabranch ]]; then _anabranch "$@"; else compdef _anabranch anabranch; fi
)sh";
  return kBegin + chooser(commands) + kEnd;
}

std::string fish(const std::vector<Command>& commands) {
  std::string out = "# fish completion for anabranch: anabranch completions fish | source\n";
  for (const Command& command : commands) {
    const std::string when =
        command.name.empty() ? "" : fmt::format(" -n '__fish_seen_subcommand_from {}'", command.name);
    if (!command.name.empty())
      out += fmt::format("complete -c anabranch -n __fish_use_subcommand -a {} -d '{}'\n", command.name,
                         command.help);
    for (const FlagOfCommand& flag : command.flags) {
      std::string line = "complete -c anabranch" + when;
      for (const std::string& name : flag.names)
        line += name.starts_with("--")  ? " -l " + name.substr(2)
                : name.starts_with("-") ? " -s " + name.substr(1)
                                        : " -a " + name;
      if (flag.takes_value) line += flag.choices.empty() ? " -r" : " -x";
      if (!flag.choices.empty()) line += fmt::format(" -a '{}'", fmt::join(flag.choices, " "));
      if (std::ranges::find(kModelFlags, flag.names.front()) != std::end(kModelFlags))
        line += " -a '(anabranch ls --names 2>/dev/null)'";
      out += line + fmt::format(" -d '{}'\n", flag.help);
    }
  }
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const auto commands = read_all(app);
  return shell == "bash" ? bash(commands) : shell == "zsh" ? zsh(commands) : fish(commands);
}

}  // namespace anabranch::cli
