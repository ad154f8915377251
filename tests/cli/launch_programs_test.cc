#include "cli/launch_programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/json.h"
#include "cli/first_words.h"

namespace anabranch::cli {
namespace {

const LaunchValues kValues{.url = "http://h:1", .key = "secret", .model = "ORG/NAME", .context = 4000};

const LaunchProgram& program(const std::string& name) {
  return *std::ranges::find(launch_programs(), name, &LaunchProgram::name);
}

std::string variable(const LaunchProgram& program, const std::string& name) {
  for (const auto& [known, value] : program.variables)
    if (known == name) return value;
  return "(not set)";
}

TEST(LaunchPrograms, EachRowIsComplete) {
  std::set<std::string> names;
  for (const LaunchProgram& row : launch_programs()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.command.empty() || row.title.empty() || row.install.empty()) << row.name;
    EXPECT_EQ(row.install.find("://"), row.install.npos) << row.name;
    EXPECT_EQ(version_in(row.least_version), row.least_version) << row.name;
    const LaunchProgram filled = with_values(row, kValues, {});
    std::string everything;
    for (const std::string& word : filled.words) everything += word + "\n";
    EXPECT_EQ(everything.find("secret"), everything.npos) << row.name;  // others can read command lines
    for (const auto& [variable, value] : filled.variables) everything += value + "\n";
    for (const char* said : {"http://h:1", "secret", "ORG/NAME"})
      EXPECT_NE(everything.find(said), everything.npos) << row.name << " " << said;
    for (const char* place : {"{url}", "{key}", "{model}", "{context}", "{output}"})
      EXPECT_EQ(everything.find(place), everything.npos) << row.name << " " << place;
  }
  EXPECT_EQ(launch_names(), (std::vector<std::string>{"claude", "codex", "opencode", "qwen", "aider"}));
}

TEST(LaunchPrograms, ClientsOfOpenAiGetTheAddressWithV1AndAnthropicsWithout) {
  EXPECT_EQ(variable(with_values(program("claude"), kValues, {}), "ANTHROPIC_BASE_URL"), "http://h:1");
  EXPECT_EQ(variable(with_values(program("qwen"), kValues, {}), "OPENAI_BASE_URL"), "http://h:1/v1");
  EXPECT_EQ(variable(with_values(program("aider"), kValues, {}), "OPENAI_API_BASE"), "http://h:1/v1");
}

// Their key for Anthropic's own server does not go to ours.
TEST(LaunchPrograms, TheUsersOwnKeyIsNotUsed) {
  EXPECT_EQ(variable(with_values(program("claude"), kValues, {}), "ANTHROPIC_API_KEY"), "");
}

// With room for an answer of its own size, Claude Code compacts a context of 32,768 tokens after each turn.
TEST(LaunchPrograms, AnswersTakeAQuarterOfTheContext) {
  EXPECT_EQ(variable(with_values(program("claude"), kValues, {}), "CLAUDE_CODE_MAX_CONTEXT_TOKENS"), "4000");
  EXPECT_EQ(variable(with_values(program("claude"), kValues, {}), "CLAUDE_CODE_MAX_OUTPUT_TOKENS"), "1000");
}

TEST(LaunchPrograms, TheUsersArgumentsFollow) {
  const LaunchProgram filled = with_values(program("aider"), kValues, {"--yes", "{model}"});
  const std::vector<std::string> words = {"--model", "openai/ORG/NAME", "--no-show-model-warnings", "--yes",
                                          "{model}"};
  EXPECT_EQ(filled.words, words);
}

// Codex ignores every -c before a sub-command that has a -c, and would send the prompt to OpenAI.
TEST(LaunchPrograms, OurSettingsStandBesideTheUsersOwn) {
  const LaunchProgram row{.words = {"-c", "ours"}, .repeated = {"-c", "--config"}};
  const auto words = [&](const std::vector<std::string>& arguments) {
    return with_values(row, kValues, arguments).words;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(words({}), Words({"-c", "ours"}));
  EXPECT_EQ(words({"exec", "hello"}), Words({"-c", "ours", "exec", "hello"}));
  EXPECT_EQ(words({"-c", "a", "exec"}), Words({"-c", "ours", "-c", "a", "exec"}));
  EXPECT_EQ(words({"exec", "-c", "a", "--config=b", "-cd", "hi"}),
            Words({"exec", "-c", "ours", "-c", "a", "--config=b", "-cd", "hi"}));
  EXPECT_EQ(words({"-c", "a", "exec", "--config", "-c", "hi"}),
            Words({"-c", "ours", "-c", "a", "exec", "-c", "ours", "--config", "-c", "hi"}));
  EXPECT_EQ(words({"exec", "--", "-c", "a"}), Words({"-c", "ours", "exec", "--", "-c", "a"}));
  EXPECT_EQ(words({"exec", "-c"}), Words({"exec", "-c", "ours", "-c"}));
  EXPECT_EQ(with_values(program("codex"), kValues, {"exec", "-c", "a"}).words.front(), "exec");
  EXPECT_EQ(with_values(program("aider"), kValues, {"-c", "a"}).words.front(), "--model");
}

TEST(LaunchPrograms, ValuesWithinQuotesAreEscaped) {
  LaunchValues odd = kValues;
  odd.model = "a\"b\\c{url}";
  EXPECT_EQ(fill_places("{model} \"{model}\" {model}", odd),
            "a\"b\\c{url} \"a\\\"b\\\\c{url}\" a\"b\\c{url}");
  const auto json =
      parse_json(variable(with_values(program("opencode"), odd, {}), "OPENCODE_CONFIG_CONTENT"));
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ((*json)["model"], "anabranch/" + odd.model);
  const Json& provider = (*json)["provider"]["anabranch"];
  EXPECT_EQ(provider["options"]["baseURL"], "http://h:1/v1");
  EXPECT_EQ(provider["options"]["apiKey"], "secret");
  EXPECT_EQ(provider["models"][odd.model]["limit"]["context"], 4000);
  EXPECT_EQ(provider["models"][odd.model]["limit"]["output"], 1000);
}

TEST(LaunchPrograms, VersionsAreFoundInWhatProgramsPrint) {
  EXPECT_EQ(version_in("2.1.330 (Claude Code)\n"), "2.1.330");
  EXPECT_EQ(version_in("codex-cli 0.163.0\n"), "0.163.0");
  EXPECT_EQ(version_in("aider 0.86.1.dev3+g1\n"), "0.86.1");
  EXPECT_EQ(version_in("v1.18\n"), "1.18");
  EXPECT_EQ(version_in("no version, 7 words\n"), "");
  EXPECT_EQ(version_in(""), "");
}

TEST(LaunchPrograms, VersionsAreComparedNumberByNumber) {
  EXPECT_TRUE(is_older("0.9.0", "0.10.0"));
  EXPECT_FALSE(is_older("0.10.0", "0.9.0"));
  EXPECT_TRUE(is_older("1.99.99", "2.0.0"));
  EXPECT_FALSE(is_older("2.0.0", "2.0.0"));
  EXPECT_FALSE(is_older("2.0", "2.0.0"));
  EXPECT_FALSE(is_older("2.0.0.1", "2.0.0"));
  EXPECT_TRUE(is_older("2", "2.0.1"));
}

TEST(LaunchWords, WhatFollowsTheMarkIsTheProgramsOwn) {
  std::vector<std::string> words = {"-v", "launch", "codex", "--print", "--", "exec", "--", "[a,b]"};
  EXPECT_EQ(take_passed_on(words), (std::vector<std::string>{"exec", "--", "[a,b]"}));
  EXPECT_EQ(words, (std::vector<std::string>{"-v", "launch", "codex", "--print"}));
  for (std::vector<std::string> others :
       {std::vector<std::string>{"generate", "--", "launch"}, {"launch", "codex"}, {"--", "launch"}, {}}) {
    const auto before = others;
    EXPECT_TRUE(take_passed_on(others).empty());
    EXPECT_EQ(others, before);
  }
}

}  // namespace
}  // namespace anabranch::cli
