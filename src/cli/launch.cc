// `launch`: runs a coding agent with a server of this machine.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/mapped_file.h"
#include "base/private_file.h"
#include "base/user_directory.h"
#include "cli/conversation.h"
#include "cli/launch_process.h"
#include "cli/launch_programs.h"
#include "cli/print.h"
#include "cli/running_server.h"
#include "cli/serve_options.h"
#include "cli/server_access.h"

namespace anabranch::cli {
namespace {

constexpr const char* kNoKey = "none";
constexpr int kUsualContext = 32768;  // of a model that was never loaded: the server cannot tell
constexpr size_t kMaxLogBytes = 64 << 10;

const LaunchProgram& program_of(const LaunchOptions& options) {
  return *std::ranges::find(launch_programs(), options.program, &LaunchProgram::name);
}

// Files of a server that runs as long as the program, in the state directory. They are removed at its end.
class Files {
 public:
  // Errors: not_found (there is no state directory), io.
  static Result<Files> make() {
    const std::string directory = user_state_directory();
    if (directory.empty())
      return make_error(ErrorKind::not_found, "neither $XDG_STATE_HOME nor $HOME holds an absolute path");
    if (const int error = make_private_directory(directory))
      return make_error(ErrorKind::io, "cannot make '{}': {}", directory, std::strerror(error));
    return Files(fmt::format("{}/launch-{}", directory, ::getpid()));
  }
  Files(Files&& other) noexcept : begin_(std::exchange(other.begin_, {})) {}
  Files& operator=(Files&&) = delete;
  ~Files() {
    if (begin_.empty()) return;
    for (const std::string& file : {log(), pid()}) ::unlink(file.c_str());
  }

  std::string log() const { return begin_ + ".log"; }
  std::string pid() const { return begin_ + ".pid"; }

 private:
  explicit Files(std::string begin) : begin_(std::move(begin)) {}
  std::string begin_;
};

// Fails if the program is not there, or too old for what is set for it.
Result<void> check_program(const LaunchProgram& program) {
  const auto output = output_of(program.command, "--version");
  if (!output && output.error().kind == ErrorKind::not_found)
    return make_error(ErrorKind::not_found, "{} is not installed: {}. Its makers install it with `{}`",
                      program.title, output.error().message, program.install);
  if (!output) return output.error();
  const std::string version = version_in(*output);
  if (version.empty())
    return make_error(ErrorKind::invalid, "`{} --version` prints no version: is it {}?", program.command,
                      program.title);
  if (is_older(version, program.least_version))
    return make_error(ErrorKind::unsupported,
                      "{} {} is too old: launch needs {} or later. `{}` installs the newest", program.title,
                      version, program.least_version, program.install);
  return {};
}

Result<Json> models_of(const std::string& url, const std::string& key) {
  const net::Response response = ask_server(url + "/v1/models", key);
  if (response.status == 401 || response.status == 403)
    return make_error(ErrorKind::invalid,
                      "the server at {} needs a key: give it with --api-key-file, or as ANABRANCH_API_KEY in "
                      "the environment",
                      url);
  if (!response.good())
    return make_error(ErrorKind::not_found, "the server at {} does not answer: {}", url, response.failure());
  const auto json = parse_json(response.body);
  if (!json || !json->is_object() || !json->contains("data") || !(*json)["data"].is_array())
    return make_error(ErrorKind::invalid, "{}/v1/models answers with something else than a list of models",
                      url);
  return (*json)["data"];
}

// The facts about the server at this address that the program needs. model: its name on the server; "": the
// first one.
Result<LaunchValues> values_of(const std::string& url, const std::string& key, const std::string& model) {
  TRY(const Json models, models_of(url, key));
  if (model.empty() && models.empty())
    return make_error(ErrorKind::not_found,
                      "the server at {} has no model yet: name one with --model (`anabranch ls` lists what "
                      "is stored)",
                      url);
  LaunchValues values{.url = url,
                      .key = key.empty() ? kNoKey : key,
                      .model = model.empty() ? string_at(models.front(), "id") : model,
                      .context = kUsualContext};
  for (const Json& one : models)
    if (string_at(one, "id") == values.model && one.contains("context_length") &&
        one["context_length"].is_number_integer())
      values.context = one["context_length"].get<int>();
  return values;
}

// A word as a shell reads it.
std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) || std::string_view("-_./:=,@%+").find(static_cast<char>(c)) != std::string::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Prints what would be done, as a shell's commands. The key is not shown.
void print_launch(const LaunchProgram& row, LaunchValues values, const LaunchOptions& options) {
  if (values.key != kNoKey) values.key = "(not shown)";
  const LaunchProgram program = with_values(row, values, options.arguments);
  for (const auto& [name, value] : program.variables) say("export {}={}\n", name, shell_word(value));
  std::string line = program.command;
  for (const std::string& word : program.words) line += " " + shell_word(word);
  say("{}\n", line);
}

// Starts a server on a free port of this machine alone. It has the settings of `serve`.
Result<std::string> start_server(std::unique_ptr<ServerProcess>& server, const LaunchOptions& options,
                                 std::vector<std::string> arguments, const Files& files) {
  for (const std::string& word :
       {std::string("serve"), std::string("--host=127.0.0.1"), std::string("--port=0"),
        std::string("--detach=false"), "--pid-file=" + files.pid(), "--log-file=" + files.log()})
    arguments.push_back(word);
  if (!options.model.empty()) arguments.push_back("--model=" + options.model);
  say(stderr, "no server runs on port {}: one starts for the time of the program (log: {})\n", options.port,
      files.log());
  const std::atomic<bool>& interrupt = catch_ends();
  TRY(server, ServerProcess::start(arguments, files.log()));
  auto address = server->wait_until_it_listens(files.pid(), interrupt);
  if (!address && !interrupt)
    if (const auto log = read_file(files.log(), kMaxLogBytes)) say_lines(stderr, *log);
  return address;
}

// The address of the server that runs; "": none does.
Result<std::string> running_server(const LaunchOptions& options) {
  TRY(const auto seen, see_server(options));
  if (!seen) return std::string();
  if (seen->record.address.empty())
    return make_error(ErrorKind::busy,
                      "the server of process {} is still loading: try again when `anabranch status` says ok",
                      seen->record.pid);
  return reachable(seen->record.address);
}

Result<int> print(const LaunchProgram& row, const std::string& key, const LaunchOptions& options) {
  TRY(const std::string url, running_server(options));
  LaunchValues values{.url = "http://127.0.0.1:PORT",
                      .key = key.empty() ? kNoKey : key,
                      .model = options.model.empty() ? "MODEL" : options.model,
                      .context = kUsualContext};
  if (url.empty()) {
    say("# No server runs on port {}: one would start for the time of the program, on a free PORT.\n",
        options.port);
  } else {
    TRY(values, values_of(url, key, options.model));
  }
  print_launch(row, values, options);
  return 0;
}

Result<int> launch(const LaunchOptions& options, const std::vector<std::string>& flags) {
  const LaunchProgram& row = program_of(options);
  TRY(const std::string key, key_to_show(options.api_key_file));
  if (options.print) return print(row, key, options);
  TRY_VOID(check_program(row));  // before a model is loaded in vain
  TRY(std::string url, running_server(options));
  std::optional<Files> files;
  std::unique_ptr<ServerProcess> own;
  if (url.empty()) {
    TRY(auto made, Files::make());
    files.emplace(std::move(made));
    TRY(url, start_server(own, options, flags, *files));
  }
  // A server of ours has the model as its first one.
  TRY(const LaunchValues values, values_of(url, key, own ? "" : options.model));
  const LaunchProgram program = with_values(row, values, options.arguments);
  catch_ends();
  if (interrupt_flag()) return make_error(ErrorKind::busy, "interrupted");
  return run_program(program.command, program.words, program.variables);
}

}  // namespace

int run_launch(const LaunchOptions& options, const std::vector<std::string>& flags) {
  const auto result = launch(options, flags);
  if (!result && interrupt_flag()) return 128 + last_end();
  return result ? *result : fail(result.error());
}

}  // namespace anabranch::cli
