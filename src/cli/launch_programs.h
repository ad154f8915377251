// The programs that `launch` runs, as a table, and what a row says once the server is known.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace anabranch::cli {

struct LaunchValues {
  std::string url;    // of the server, without "/v1"
  std::string key;    // "none" for a server without keys
  std::string model;  // by its name on the server
  int context = 0;    // tokens
};

// Texts of a row have places for values: {url}, {key}, {model}, {context} and {output} (the tokens of an
// answer). Within double quotes a value is escaped as in JSON.
struct LaunchProgram {
  std::string name;           // the word on our command line
  std::string command;        // its own
  std::string title;          // for messages
  std::string least_version;  // the first one that takes these settings
  std::string install;        // how its makers install and update it
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> words;  // arguments before those of the user
  // Options of which the program takes only those behind its innermost sub-command. Where the user has some,
  // `words` stand beside them, because they would have no effect elsewhere.
  std::vector<std::string> repeated = {};
};

const std::vector<LaunchProgram>& launch_programs();
std::vector<std::string> launch_names();

// The text with the values in their places.
std::string fill_places(std::string_view text, const LaunchValues& values);
// The program's row with the values in their places, and its words joined with the user's arguments.
LaunchProgram with_values(LaunchProgram program, const LaunchValues& values,
                          const std::vector<std::string>& arguments);

// The version that `PROGRAM --version` prints, such as 2.1.330; "": it prints none.
std::string version_in(const std::string& output);
bool is_older(const std::string& version, const std::string& than);

}  // namespace anabranch::cli
