// Values of flags from configuration files and from the environment. A file has a table for each sub-command
// ([serve], also written [server]; [chat]; ...) with the long names of its flags, and tables [model.NAME]: a
// name that --model takes, with `path` (a path or a name on the hub) and flags that go with this model.
// docs/configuration.md describes the order of precedence.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace anabranch::cli {

// The meaning of a word as a switch: true, 1, yes, on; false, 0, no, off, none; upper case, too. Nothing for
// other words.
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

// $XDG_CONFIG_HOME/anabranch/anabranch.toml or ~/.config/anabranch/anabranch.toml, if it exists.
std::string user_settings_file();

// Values of later files take precedence. `app` has the sub-commands and flags that files may name. Errors
// name the file and the place: not_found, io, invalid (not TOML; an unknown table or flag, with the nearest
// known one; a wrong type).
Result<Settings> read_settings(const std::vector<std::string>& files, const CLI::App& app);

// The settings for a sub-command's flags: its table, overridden by that of the model of this name, overridden
// by the environment (ANABRANCH_MAX_GAP for --max-gap).
SettingTable settings_of(const CLI::App& command, const Settings& settings, const std::string& model);

// Environment variables that look like ours but are unknown, each as a sentence for a warning.
std::vector<std::string> unknown_variables(const CLI::App& app);

// The result of settings_of() as arguments, without flags that `given` (the sub-command after parsing the
// user's own arguments) already has or that exclude one of those.
std::vector<std::string> as_arguments(const SettingTable& table, const CLI::App& given);

}  // namespace anabranch::cli
