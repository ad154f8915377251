// The command line: sub-commands, their flags, and the options that these fill.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/locate.h"
#include "cli/options.h"
#include "cli/serve_options.h"
#include "cli/settings.h"

namespace anabranch::cli {

struct Program {
  // keep_defaults: CLI11 keeps each flag's default as text.
  explicit Program(bool keep_defaults = false);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  CLI::App app;
  bool verbose = false, quiet = false, offline = false, no_auto_tune = false;
  std::string settings_file;
  std::string shell;  // of `completions`

  GenerateOptions generate;
  ChatOptions chat, mcp;
  ServeOptions serve;
  StopOptions stop;
  StatusOptions status;
  LaunchOptions launch;
  ConvertOptions convert;
  BenchOptions bench;
  EvalOptions eval;
  CalibrateOptions calibrate;
  PullOptions pull;
  ListOptions ls;
  ShowOptions show;
  RemoveOptions rm;
  DoctorOptions doctor;
  StatesOptions states;
  SessionsOptions sessions;
  VerifyOptions verify;
  ConfigOptions config;

  // A flag's value that names a model. Before the command runs, it is replaced by the model's path.
  struct Located {
    std::string* model;
    hub::Purpose purpose = hub::Purpose::model;
    IfMissing missing = IfMissing::pull;
  };
  // The options of a command that offers models if none is named.
  struct Choice {
    EngineOptions* engine;
    const bool* yes;  // takes the first offer
  };
  struct Command {
    CLI::App* app;
    std::function<int()> run;
    std::vector<Located> locates = {};
    std::function<Result<void>()> check = {};  // called before the models are located
    std::optional<Choice> choice = {};
  };
  std::vector<Command> commands;
};

// The command line's arguments, completed with flags from configuration files and the environment
// (cli/settings.h), and the models that these files define.
struct Arguments {
  std::vector<std::string> own;    // the user's, without the program's name
  std::vector<std::string> words;  // with the flags from the settings
  SettingTable used;               // the settings of the sub-command
  Settings settings;
  std::vector<std::string> passed_on;  // those behind "--" that are for the program of `launch`
};
Result<Arguments> with_settings(int argc, const char* const* argv);

// The words as CLI11's parse() takes them: the last first. It would take the next word as the value of a word
// that ends with "=", so the empty value becomes a word of its own.
std::vector<std::string> words_to_parse(const std::vector<std::string>& words);

// The arguments of `serve` for another model than that of the command line: without the flags of the command
// line's model, with the settings of [model.NAME].
std::vector<std::string> serve_words(const Arguments& arguments, const std::string& model);

}  // namespace anabranch::cli
