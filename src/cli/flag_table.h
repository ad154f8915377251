// Tables of flags. A row says everything about a flag once: its names, the value that it sets, its help, and
// the rules for what it takes. Configuration files, the environment, completions, `config show` and
// docs/cli.md follow from the rows.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace anabranch::cli {

// A rule about a flag: the values it accepts, or which other flags it needs or excludes.
using Rule = std::function<void(CLI::Option&)>;

Rule required();
Rule within(int low, int high);
Rule within(double low, double high);
Rule one_of(std::vector<std::string> words);
Rule one_of(std::initializer_list<int> numbers);
// A number of bytes: "64MB". The units are B, KB, MB, GB and TB (powers of 1024; KiB and so on mean the
// same); 0 needs none.
Rule size();
Rule repeated();  // may be given several times
Rule listed();    // several values, separated by commas
Rule needs(std::string flag);
Rule excludes(std::string flag);

// Marks a flag that describes the model of the command line: `serve` ignores it for its other models.
struct OfModel {};

// A value that is written as one of several words.
template <class T>
struct Named {
  T& value;
  std::vector<std::pair<std::string, T>> words;
};
template <class T>
Named<T> named(T& value, std::vector<std::pair<std::string, std::type_identity_t<T>>> words) {
  return {value, std::move(words)};
}

struct Flag {
  // names: "-t,--threads"; a name without dashes is that of a positional argument. value: outlives the
  // parser.
  template <class T, class... Rules>
  Flag(std::string names, T& value, std::string help, Rules... rules)
      : names(names), is_switch(std::is_same_v<T, bool>) {
    add = [names, &value, help](CLI::App& app) {
      if constexpr (std::is_same_v<T, bool>)
        return app.add_flag(names, value, help);
      else
        return app.add_option(names, value, help);
    };
    (take(std::move(rules)), ...);
  }
  template <class T, class... Rules>
  Flag(std::string names, Named<T> value, std::string help, Rules... rules) : names(names) {
    std::vector<std::string> words;
    for (const auto& [word, meaning] : value.words) words.push_back(word);
    add = [names, value, help](CLI::App& app) {
      const auto read = [value](const CLI::results_t& given) {
        for (const auto& [word, meaning] : value.words)
          if (word == given.back()) value.value = meaning;
        return true;
      };
      const auto usual = [value] {
        for (const auto& [word, meaning] : value.words)
          if (meaning == value.value) return word;
        return std::string();
      };
      return app.add_option(names, read, help, false, usual)->type_name("TEXT");
    };
    take(one_of(std::move(words)));
    (take(std::move(rules)), ...);
  }

  std::string names;
  std::function<CLI::Option*(CLI::App&)> add;
  std::vector<Rule> rules;
  bool is_switch = false;  // takes no value
  bool of_model = false;   // see OfModel

 private:
  void take(Rule rule) { rules.push_back(std::move(rule)); }
  void take(OfModel) { of_model = true; }
};

// Flags under a heading of the help; "": the flags of this sub-command alone.
struct FlagGroup {
  std::string heading;
  std::vector<Flag> flags;
};

// Rules may name flags of any of the groups, and flags that the sub-command already has.
void add_flags(CLI::App& command, const std::vector<FlagGroup>& groups);
// Adds a sub-command with flags that it shares with others, and its own.
CLI::App* add_command(CLI::App& app, const char* name, const char* help, std::vector<FlagGroup> groups,
                      std::vector<Flag> own = {});

}  // namespace anabranch::cli
