// Values of flags from configuration files and from the environment. A file has a table for each sub-command
// ([serve], also written [server]; [chat]; ...) with the long names of its flags, and tables [model.NAME]: a
// name that --model takes, with `path` (a path or a name on the hub) and flags that go with this model.
// docs/configuration.md has the order in which they count.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace anabranch::cli {

// What a word means as a switch: true, 1, yes, on; false, 0, no, off, none; in capitals, too. Other words:
// nothing.
std::optional<bool> as_switch(const std::string& value);

struct Setting {
  std::vector<std::string> values;  // several for flags that may be given several times
  std::string origin;               // for people: "/etc/x.toml, [server]", "$ANABRANCH_PORT"
};
using SettingTable = std::map<std::string, Setting>;  // by a flag's long name, without dashes

struct ModelSettings {
  std::string path;
  SettingTable flags;
};

struct Settings {
  std::map<std::string, SettingTable> commands;
  std::map<std::string, ModelSettings> models;
};

// $XDG_CONFIG_HOME/anabranch/anabranch.toml or ~/.config/anabranch/anabranch.toml, if it is there.
std::string user_settings_file();

// Later files count more, value by value. `app` has the sub-commands and flags that may be named. Errors name
// the file and the place: not_found, io, invalid (no TOML; a table, flag or type that there is not, with the
// nearest).
Result<Settings> read_settings(const std::vector<std::string>& files, const CLI::App& app);

// What counts for a sub-command's flags: its table, over it that of the model of this name, over it the
// environment (ANABRANCH_MAX_GAP for --max-gap).
SettingTable settings_of(const CLI::App& command, const Settings& settings, const std::string& model);

// Variables of the environment that look like ours and are none, each as a sentence for a warning.
std::vector<std::string> unknown_variables(const CLI::App& app);

// What settings_of() found, as arguments, without flags that `given` (the sub-command after the user's own
// arguments were parsed) has already or that exclude one of them.
std::vector<std::string> as_arguments(const SettingTable& table, const CLI::App& given);

}  // namespace anabranch::cli
