#include "cli/settings.h"

#include <fmt/core.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include "base/lower_case.h"
#include "base/mapped_file.h"
#include "base/nearest.h"
#include "cli/foreign_flags.h"

extern char** environ;

namespace anabranch::cli {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
// Sub-commands whose flags may stand in [model.NAME].
constexpr const char* kModelCommands[] = {"serve", "chat", "generate"};
// Sub-commands that look for a server.
constexpr std::string_view kServerCommands[] = {"stop", "status", "launch"};

std::string flag_name(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// The names of the flags that settings may set for a sub-command: its own, those of the sub-commands below
// it, and those of the program.
std::vector<std::string> names_of(const CLI::App& command) {
  std::vector<const CLI::App*> apps = {&command, command.get_parent()};
  for (const CLI::App* below : command.get_subcommands({})) apps.push_back(below);
  std::vector<std::string> names;
  for (const CLI::App* app : apps)
    for (const CLI::Option* option : app->get_options())
      for (const std::string& name : option->get_lnames())
        if (name != "help" && name != "version" && name != "config") names.push_back(name);
  return names;
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({}))
    if (command->get_name() == name) return command;
  return nullptr;
}

class Reader {
 public:
  Reader(std::string file, const CLI::App& app, Settings& out)
      : file_(std::move(file)), app_(app), out_(out) {}

  Result<void> read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      const std::string name(key.str());
      if (name == "model") {
        TRY_VOID(read_models(node));
        continue;
      }
      const std::string command = name == "server" ? "serve" : name;
      const CLI::App* known = find_command(app_, command);
      if (!known || !node.is_table()) return no_table(name, node);
      TRY_VOID(read_flags(command, *node.as_table(), fmt::format("[{}]", name), names_of(*known),
                          out_.commands[command]));
    }
    return {};
  }

 private:
  template <class... Parts>
  Error error(const std::string& where, fmt::format_string<Parts...> text, Parts&&... parts) const {
    return make_error(ErrorKind::invalid, "{}: {}: {}", file_, where,
                      fmt::format(text, std::forward<Parts>(parts)...));
  }

  Error no_table(const std::string& name, const toml::node& node) const {
    if (const std::string table = table_of(our_name("serve", flag_name(name)));
        !table.empty() && !node.is_table())
      return error(fmt::format("line {}", node.source().begin.line), "{} belongs below a line {}", name,
                   table);
    std::vector<std::string> known = {"server", "model"};
    for (const CLI::App* command : app_.get_subcommands({})) known.push_back(command->get_name());
    return error(fmt::format("line {}", node.source().begin.line), "there is no table [{}]{}", name,
                 did_you_mean(name, known));
  }

  // The table for a flag of that name, such as "[server]"; "": there is none.
  std::string table_of(const std::string& flag) const {
    for (const char* command : {"serve", "chat", "generate", "bench", "convert"}) {
      const CLI::App* app = find_command(app_, command);
      if (!app) continue;
      const auto known = names_of(*app);
      if (std::ranges::find(known, flag) != known.end())
        return std::string(command) == "serve" ? "[server]" : fmt::format("[{}]", command);
    }
    return "";
  }

  Result<void> read_models(const toml::node& node) {
    if (!node.is_table()) return error("model", "write [model.NAME]");
    std::vector<std::string> known = {"path"};
    for (const char* command : kModelCommands)
      if (const CLI::App* app = find_command(app_, command))
        for (std::string& name : names_of(*app))
          if (name != "model" && std::ranges::find(known, name) == known.end())
            known.push_back(std::move(name));
    for (const auto& [key, value] : *node.as_table()) {
      const std::string name(key.str()), where = fmt::format("[model.{}]", name);
      if (!value.is_table()) return error(where, "must be a table");
      SettingTable read;
      TRY_VOID(read_flags("serve", *value.as_table(), where, known, read));
      ModelSettings& model = out_.models[name];
      if (const auto path = read.find("path"); path != read.end()) {
        model.path = place_of(path->second.values.front());
        read.erase(path);
      }
      for (auto& [flag, setting] : read) model.flags[flag] = std::move(setting);
      if (model.path.empty()) return error(where, "lacks path = \"a path, or a name on the hub\"");
    }
    return {};
  }

  Error no_setting(const std::string& where, const std::string& key, const std::string& flag,
                   const std::vector<std::string>& known) const {
    const std::string table = table_of(flag);
    if (table.empty() || table == where)
      return error(where, "there is no setting {}{}", key, did_you_mean(flag, known));
    return error(where, "there is no setting {} here; it belongs below a line {}", key, table);
  }

  // Resolves a path from the file: relative to the file if it exists there, or in the user's home for "~/".
  std::string place_of(const std::string& path) const {
    if (const char* home = std::getenv("HOME"); home && path.starts_with("~/")) return home + path.substr(1);
    const auto beside = std::filesystem::path(file_).parent_path() / path;
    std::error_code ignored;
    return std::filesystem::exists(beside, ignored) ? beside.string() : path;
  }

  Result<void> read_flags(const std::string& command, const toml::table& table, const std::string& where,
                          const std::vector<std::string>& known, SettingTable& to) const {
    for (const auto& [key, node] : table) {
      const std::string name = our_name(command, flag_name(key.str()));
      if (std::ranges::find(known, name) == known.end())
        return no_setting(where, std::string(key.str()), name, known);
      Setting setting{{}, fmt::format("{}, {}", file_, where)};
      const auto add = [&](const toml::node& value) {
        auto text = text_of(value);
        if (text) setting.values.push_back(std::move(*text));
        return text.has_value();
      };
      bool fine = true;
      if (const toml::array* all = node.as_array())
        for (const toml::node& value : *all) fine &= add(value);
      else
        fine = add(node);
      if (!fine)
        return error(where, "{} must be a text, a number, true or false, or a list of them", key.str());
      if (name == "api-key" || name == "api-key-file") TRY_VOID(check_secret(key.str(), node, where));
      if (!setting.values.empty()) to[name] = std::move(setting);
    }
    return {};
  }

  // Fails unless the value is a text that is not empty, or a list of such: a server that was meant to have
  // keys must not start without one, or with the key "true".
  Result<void> check_secret(std::string_view key, const toml::node& node, const std::string& where) const {
    const auto is_text = [](const toml::node& value) {
      return value.is_string() && !value.as_string()->get().empty();
    };
    const toml::array* all = node.as_array();
    const bool fine = all ? !all->empty() && std::ranges::all_of(*all, is_text) : is_text(node);
    if (fine) return {};
    return error(
        where,
        "{} must be a text that is not empty, or a list of such; leave it out for a server without keys",
        key);
  }

  static std::optional<std::string> text_of(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return std::to_string(number->get());
    if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
    if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
    return std::nullopt;
  }

  std::string file_;
  const CLI::App& app_;
  Settings& out_;
};

// Refuses texts on which the parser's own assertions would end the process: those with something else where a
// table's name is expected, as in "[=".
Result<void> check_keys(const std::string& file, const std::string& text) {
  static const std::regex no_key(R"re(^\s*\[\[?\s*[^\s\w"'\[\]{}#+.-])re");
  std::istringstream lines(text);
  int number = 0;
  std::string within;  // the quotes of a text of several lines, which may hold anything
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const bool is_text = !within.empty();
    for (size_t at = 0; (at = line.find_first_of("\"'", at)) != line.npos; ++at) {
      const std::string quotes = line.substr(at, 3);
      if (quotes != "\"\"\"" && quotes != "'''") continue;
      if (within.empty() || within == quotes) within = within.empty() ? quotes : "";
      at += 2;
    }
    if (!is_text && std::regex_search(line.substr(0, 200), no_key))
      return make_error(ErrorKind::invalid, "{}: line {}: a key is missing", file, number);
  }
  return {};
}

// The environment variable for a flag: "ANABRANCH_MAX_GAP" for "max-gap".
std::string variable_of(const std::string& flag) {
  std::string variable = "ANABRANCH_" + flag;
  for (char& c : variable)
    c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

// Whether Kubernetes has set the variable. For a service named anabranch it sets in every container:
// ANABRANCH_PORT=tcp://10.0.0.7:11436, ANABRANCH_SERVICE_HOST, ANABRANCH_PORT_11436_TCP_ADDR ...
bool is_of_kubernetes(std::string_view variable, std::string_view value) {
  return variable.starts_with("ANABRANCH_SERVICE_") || variable.starts_with("ANABRANCH_PORT_") ||
         (variable == "ANABRANCH_PORT" && value.find("://") != value.npos);
}

bool takes_no_value(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}

}  // namespace

std::string user_settings_file() {
  std::string folder;
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config && config[0] == '/')
    folder = config;
  else if (const char* home = std::getenv("HOME"); home && home[0] == '/')
    folder = std::string(home) + "/.config";
  if (folder.empty()) return {};
  std::string file = folder + "/anabranch/anabranch.toml";
  std::error_code ignored;
  return std::filesystem::exists(file, ignored) ? file : std::string();
}

Result<Settings> read_settings(const std::vector<std::string>& files, const CLI::App& app) {
  Settings out;
  for (const std::string& file : files) {
    TRY(const auto text, read_file(file, kMaxBytes));
    TRY_VOID(check_keys(file, text));
    try {
      TRY_VOID(Reader(file, app, out).read(toml::parse(text, file)));
    } catch (const toml::parse_error& e) {
      return make_error(ErrorKind::invalid, "{}: line {}: {}", file, e.source().begin.line, e.description());
    }
  }
  return out;
}

SettingTable settings_of(const CLI::App& command, const Settings& settings, const std::string& model) {
  SettingTable out;
  const auto known = names_of(command);
  // These look for the server that `serve` would start with the same settings. Its model may have another
  // name there.
  const bool asks_for_server =
      std::ranges::find(kServerCommands, command.get_name()) != std::end(kServerCommands);
  for (const std::string& name : {std::string(asks_for_server ? "serve" : ""), command.get_name()})
    if (const auto of = settings.commands.find(name); of != settings.commands.end())
      for (const auto& [flag, setting] : of->second)
        if (std::ranges::find(known, flag) != known.end() &&
            !(asks_for_server && name == "serve" && flag == "model"))
          out[flag] = setting;
  if (const auto of = settings.models.find(model); of != settings.models.end())
    for (const auto& [name, setting] : of->second.flags) {
      // Requests choose among a model's adapters; `chat` and `generate` apply all that they are given.
      const bool of_requests = name == "lora" && command.get_name() != "serve";
      if (!of_requests && std::ranges::find(known, name) != known.end()) out[name] = setting;
    }
  for (const std::string& name : known) {
    if (name == "api-key")
      continue;  // serve reads ANABRANCH_API_KEY itself, so the key does not show in process lists
    const std::string variable = variable_of(name);
    if (const char* value = std::getenv(variable.c_str());
        value && *value && !is_of_kubernetes(variable, value))
      out[name] = {{value}, "$" + variable};
  }
  return out;
}

std::vector<std::string> unknown_variables(const CLI::App& app) {
  // Variables that are read elsewhere.
  std::vector<std::string> known = {"ANABRANCH_API_KEY",    "ANABRANCH_BINARY", "ANABRANCH_CONFIG",
                                    "ANABRANCH_LAUNCH_KEY", "ANABRANCH_NVRTC",  "ANABRANCH_OVERLAP"};
  for (const CLI::App* command : app.get_subcommands({}))
    for (const std::string& flag : names_of(*command)) known.push_back(variable_of(flag));
  std::vector<std::string> out;
  for (char** one = environ; *one; one++) {
    const std::string_view text = *one;
    const size_t equals = std::min(text.find('='), text.size());
    const std::string name(text.substr(0, equals));
    if (!name.starts_with("ANABRANCH_") || name.starts_with("ANABRANCH_TEST_")) continue;
    if (std::ranges::find(known, name) != known.end()) continue;
    if (is_of_kubernetes(name, text.substr(std::min(equals + 1, text.size())))) continue;
    out.push_back(fmt::format("{} is no setting{}", name, did_you_mean(name, known)));
  }
  return out;
}

std::optional<bool> as_switch(const std::string& value) {
  const std::string lower = lower_case(value);
  for (const char* on : {"true", "1", "yes", "on"})
    if (lower == on) return true;
  for (const char* off : {"false", "0", "no", "off", "none"})
    if (lower == off) return false;
  return std::nullopt;
}

std::vector<std::string> as_arguments(const SettingTable& table, const CLI::App& given) {
  std::vector<std::string> out;
  for (const auto& [name, setting] : table) {
    const CLI::Option* option = nullptr;
    for (const CLI::App* at = &given; at && !option; at = at->get_parent())
      option = at->get_option_no_throw("--" + name);
    if (!option || option->count() > 0) continue;
    const auto there = [](const CLI::Option* other) { return other->count() > 0; };
    if (std::ranges::any_of(option->get_excludes(), there)) continue;
    for (const std::string& value : setting.values)
      if (!takes_no_value(*option))
        out.push_back(fmt::format("--{}={}", name, value));
      else if (const auto on = as_switch(value); on && *on)
        out.push_back("--" + name);
      else if (!on)
        out.push_back(fmt::format("--{}={}", name, value.empty() ? "''" : value));  // the parser refuses it
  }
  return out;
}

}  // namespace anabranch::cli
