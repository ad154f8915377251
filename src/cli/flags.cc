#include "cli/flags.h"

#include <fmt/core.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/nearest.h"
#include "cli/foreign_flags.h"
#include "cli/print.h"

namespace anabranch::cli {
namespace {

constexpr const char* kForAgent = "; words for the agent itself follow --";
constexpr int kUsage = 2;  // the exit status for a wrong command line, as usual on Unix

// The sub-command that was chosen, or the program if there is none.
const CLI::App& chosen(const CLI::App& app) {
  const CLI::App* at = &app;
  for (auto chosen = at->get_subcommands(); !chosen.empty(); chosen = at->get_subcommands())
    at = chosen.front();
  return *at;
}

std::vector<std::string> flags_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* at = &app; at; at = at->get_parent())
    for (const CLI::Option* option : at->get_options())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (std::string& name : foreign_flags_of(app.get_name())) names.push_back(std::move(name));
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// Whether the first unparsed word is in the place of a sub-command.
bool names_no_command(const CLI::App& app) {
  const auto left = app.remaining(true);
  return !left.empty() && left.front()[0] != '-' && !commands_of(chosen(app)).empty();
}

// An error message about the first word that is not a flag, a value or a sub-command; nothing if there is
// none.
std::optional<std::string> wrong_word(const CLI::App& app) {
  const CLI::App& command = chosen(app);
  const auto left = app.remaining(true);
  const auto commands = commands_of(command);
  const bool wrong_command = names_no_command(app);
  const bool passes_on = command.get_name() == "launch";
  for (const std::string& word : left)
    if (!wrong_command && word.size() > 1 && word[0] == '-') {
      const std::string name = word.substr(0, word.find('='));
      if (const auto advice = instead_of(name); !advice.empty())
        return fmt::format("there is no flag {}: {}", name, advice);
      const auto nearest = did_you_mean(name, flags_of(command));
      return fmt::format("there is no flag {}{}", name, nearest.empty() && passes_on ? kForAgent : nearest);
    }
  if (left.empty()) return std::nullopt;
  if (commands.empty())
    return fmt::format("'{}' is one word too many{}", left.front(),
                       passes_on ? kForAgent : "; quote texts of several words");
  if (const auto advice = instead_of(left.front()); !advice.empty())
    return fmt::format("there is no sub-command '{}': {}", left.front(), advice);
  return fmt::format("there is no sub-command '{}'{}", left.front(), did_you_mean(left.front(), commands));
}

// Removes ranges such as "INT:INT in [0 - 134217728]", which do not help; the error for a wrong value names
// the range.
void drop_ranges(CLI::Option& option) {
  try {
    for (int i = 0;; i++) {
      CLI::Validator* validator = option.get_validator(i);
      const std::string description = validator->get_description();
      if (description.find(" in [") != std::string::npos) validator->description("");
      if (description == "SIZE") {
        validator->description("");
        option.type_name("SIZE");
      }
    }
  } catch (const CLI::OptionNotFound&) {
  }
}

std::string type_name_of(const std::string& name) {
  if (name == "INT" || name == "UINT") return "N";
  if (name == "FLOAT") return "X";
  return name;
}

// Leaves out the lists of flags that exclude each other: the explanations say what matters.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option);
    return text.substr(0, text.find(" Excludes:"));
  }
};

}  // namespace

void tidy_help(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  for (CLI::Option* option : app.get_options()) {
    drop_ranges(*option);
    if (!option->get_items_expected_max()) continue;
    const std::string name = option->get_type_name();
    option->type_name(type_name_of(name.substr(0, name.find(':'))));
  }
  for (CLI::App* command : app.get_subcommands({})) tidy_help(*command);
}

namespace {

// The parts before and after the separator; nothing if the text does not contain it.
std::optional<std::pair<std::string, std::string>> split(const std::string& text, std::string_view at) {
  const size_t place = text.rfind(at);
  if (place == text.npos) return std::nullopt;
  return std::pair(text.substr(0, place), text.substr(place + at.size()));
}

// "0.500000" is 0.5.
std::string short_number(std::string text) {
  if (text.find('.') == text.npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string missing(const CLI::App& command, const std::string& name) {
  if (name == "A subcommand") return "a sub-command is missing: " + join(commands_of(command));
  if (name == "--model" || name.starts_with("--model "))
    return fmt::format(
        "{} is missing: give a directory, a .gguf file, or ORG/NAME of the hub (`anabranch ls` lists what is "
        "stored){}",
        name, command.get_option_no_throw("--yes") ? "; --yes takes a model that suits this machine" : "");
  return name + " is missing";
}

std::string not_converted(const CLI::App& command, const std::string& name, const std::string& value) {
  const CLI::Option* option = command.get_option_no_throw(name);
  if (!option && command.get_parent()) option = command.get_parent()->get_option_no_throw(name);
  const bool flag = option && option->get_items_expected_max() == 0;
  const bool whole = option && option->get_type_name() == "N";
  return fmt::format("{} must be {}, not '{}'", name,
                     flag    ? "true or false"
                     : whole ? "a whole number"
                             : "a number",
                     value);
}

// Turns CLI11's message about a wrong or missing value into a sentence that says what to give.
std::string in_words(const CLI::App& command, const std::string& said) {
  if (const auto range = split(said, " not in range "))
    if (const auto value = split(range->first, ": Value "))
      if (const auto ends = split(range->second, " to "))
        return fmt::format("{} must be from {} to {}, not '{}'", value->first, short_number(ends->first),
                           short_number(ends->second), value->second);
  if (const auto members = split(said, " not in {"))
    if (const auto value = split(members->first, ": ")) {
      std::string choices;
      for (const char c : members->second.substr(0, members->second.find('}')))
        choices += c == ',' ? ", " : std::string(1, c);
      return fmt::format("{} must be one of {}, not '{}'", value->first, choices, value->second);
    }
  constexpr std::string_view kConversion = "Could not convert: ";
  if (said.starts_with(kConversion))
    if (const size_t at = said.find(" = "); at != said.npos)
      return not_converted(command, said.substr(kConversion.size(), at - kConversion.size()),
                           said.substr(at + 3));
  if (const auto often = split(said, ": At Most 1 required but received "))
    return fmt::format("{} is given {} times: give it once", often->first, often->second);
  if (said.ends_with(" is required")) return missing(command, split(said, " is required")->first);
  if (said.ends_with(" missing"))
    if (const auto value = split(said, ": ")) return value->first + " needs a value";
  if (const auto value = split(said, ": "); value && value->second.find(' ') == said.npos)
    return fmt::format("{} cannot be '{}'", value->first, value->second);
  return said;
}

}  // namespace

int explain(const CLI::App& app, const CLI::ParseError& error) {
  const bool asked = error.get_exit_code() == 0;  // --help, --version
  if (asked && !names_no_command(app)) {
    app.exit(error);  // prints it
    return 0;
  }
  const CLI::App& command = chosen(app);
  const std::string wrong = wrong_word(app).value_or(in_words(command, error.what()));
  std::string name = command.get_name();
  for (const CLI::App* at = command.get_parent(); at; at = at->get_parent())
    name = at->get_name() + " " + name;
  say(stderr, "error: {}\n`{} --help` lists what there is.\n", wrong, name);
  return kUsage;
}

}  // namespace anabranch::cli
