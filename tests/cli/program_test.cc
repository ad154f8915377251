// The program's flags, as a whole: each has one name everywhere.
#include "cli/program.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "base/mapped_file.h"
#include "cli/foreign_flags.h"
#include "cli/model_source.h"
#include "temp_dir.h"
#include "variable.h"

namespace anabranch::cli {
namespace {

using testing::TempDir;
using testing::Variable;

// The long names of a command's flags, of the sub-commands below it too.
std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames())
      if (name != "help" && name != "version" && name != "config") names.push_back(name);
  for (const CLI::App* below : command.get_subcommands({}))
    for (std::string& name : flags_of(*below)) names.push_back(std::move(name));
  return names;
}

std::string upper(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

TEST(Program, EveryFlagCanBeSetInAFileAndInTheEnvironment) {
  Program program;
  TempDir folder;
  std::vector<std::string> everywhere;
  for (const CLI::Option* option : program.app.get_options())
    for (const std::string& name : option->get_lnames()) everywhere.push_back(name);
  EXPECT_NE(std::ranges::find(everywhere, "offline"), everywhere.end());
  for (const CLI::App* command : program.app.get_subcommands({})) {
    std::vector<std::string> flags = flags_of(*command);
    for (const std::string& name : everywhere)
      if (name != "help" && name != "version" && name != "config") flags.push_back(name);
    for (const std::string& flag : flags) {
      folder.write("x.toml", fmt::format("[{}]\n{} = \"1\"\n", command->get_name(), flag));
      const auto settings = read_settings({folder.file("x.toml")}, program.app);
      ASSERT_TRUE(settings) << settings.error().message;
      EXPECT_EQ(settings_of(*command, *settings, "").count(flag), 1u) << command->get_name() << " " << flag;
      if (flag == "api-key") continue;  // not in the list of processes
      const std::string name = "ANABRANCH_" + upper(flag);
      const Variable variable(name.c_str(), "1");
      EXPECT_EQ(settings_of(*command, {}, "").count(flag), 1u) << command->get_name() << " " << flag;
      EXPECT_TRUE(unknown_variables(program.app).empty()) << unknown_variables(program.app).front();
    }
  }
}

TEST(Program, SomeFlagsCannotBeSettings) {
  Program program;
  TempDir folder;
  for (const char* flag : {"help", "version", "config", "prompt-of-nobody"}) {
    folder.write("x.toml", fmt::format("[server]\n{} = \"1\"\n", flag));
    EXPECT_FALSE(read_settings({folder.file("x.toml")}, program.app)) << flag;
  }
}

// A command's settings become flags of the command below it and of the program, where these have them.
TEST(Program, SettingsBecomeTheFlagsOfWhoeverHasThem) {
  const Program program;
  using Words = std::vector<std::string>;
  const auto words = [](const CLI::App& given, const std::string& offline) {
    return as_arguments({{"cache-dir", {{"/x"}, ""}}, {"offline", {{offline}, ""}}}, given);
  };
  const CLI::App& cache = *program.app.get_subcommand("cache");
  EXPECT_EQ(words(*cache.get_subcommand("ls"), "1"), (Words{"--cache-dir=/x", "--offline"}));
  EXPECT_EQ(words(*cache.get_subcommand("ls"), "off"), Words{"--cache-dir=/x"});
  EXPECT_EQ(words(*program.app.get_subcommand("pull"), "yes"), Words{"--offline"});
}

// The running server may know its model by another name than its path.
TEST(Program, WhoLooksForAServerTakesItsPortFromServeButNotItsModel) {
  Program program;
  TempDir folder;
  folder.write("x.toml", "[server]\nport = 7\nmodel = \"/a/path\"\n[launch]\nprint = true\n");
  const auto settings = read_settings({folder.file("x.toml")}, program.app);
  ASSERT_TRUE(settings) << settings.error().message;
  for (const char* name : {"stop", "status", "launch"}) {
    const auto found = settings_of(*program.app.get_subcommand(name), *settings, "");
    EXPECT_EQ(found.at("port").values, std::vector<std::string>{"7"}) << name;
    EXPECT_EQ(found.count("model"), 0u) << name;
    EXPECT_EQ(found.count("print"), name == std::string("launch") ? 1u : 0u) << name;
  }
  EXPECT_EQ(settings_of(*program.app.get_subcommand("serve"), *settings, "").count("model"), 1u);
  EXPECT_EQ(settings_of(*program.app.get_subcommand("chat"), *settings, "").count("port"), 0u);
}

std::vector<std::string> words_for(std::vector<std::string> own) {
  own.insert(own.begin(), "serve");
  return serve_words({.own = std::move(own), .words = {}, .used = {}, .settings = {}}, "other");
}

// A further model does not get the flags that describe the command line's model.
TEST(Program, FlagsOfTheModelAreNotThoseOfOtherModels) {
  const std::vector<std::string> bare = {"serve", "--port", "1", "--parallel=2", "--model=other"};
  EXPECT_EQ(words_for({"--port", "1", "--parallel=2"}), bare);
  EXPECT_EQ(words_for({"-m", "a", "--port", "1", "--draft", "d", "--context=9", "--pin", "--parallel=2",
                       "--lossy-skip", "--served-model-name", "n", "--expert-memory=1GB", "--lora", "n=p"}),
            bare);
  EXPECT_EQ(words_for({"-ma", "--port", "1", "--parallel=2", "--model=b"}), bare);
  EXPECT_EQ(words_for({"--model-memory", "1GB"}),
            (std::vector<std::string>{"serve", "--model-memory", "1GB", "--model=other"}));
}

// Requests choose among the adapters of [model.NAME]. Those of [server] belong to the command line's model.
TEST(Program, AdaptersOfTheConfigurationBelongToOneModel) {
  const Program program;
  TempDir folder;
  folder.write(
      "x.toml",
      "[server]\nlora = ['a=/a']\n[model.other]\npath = 'p'\nlora = ['b=/b', 'c=/c']\n[model.third]\n"
      "path = 'q'\n[generate]\nlora = ['/g']\n");
  const auto settings = *read_settings({folder.file("x.toml")}, program.app);
  const auto of = [&](const char* command, const std::string& model) {
    const auto table = settings_of(*program.app.get_subcommand(command), settings, model);
    return table.contains("lora") ? table.at("lora").values : std::vector<std::string>();
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(of("serve", ""), Words{"a=/a"});
  EXPECT_EQ(of("serve", "other"), (Words{"b=/b", "c=/c"}));
  EXPECT_EQ(of("chat", "other"), Words());
  EXPECT_EQ(of("generate", "other"), Words{"/g"});
  const Variable variable("ANABRANCH_LORA", "d=/d");
  const auto words = [&](const std::string& model) {
    return serve_words({.own = {"serve", "--lora", "e=/e"}, .words = {}, .used = {}, .settings = settings},
                       model);
  };
  EXPECT_EQ(words("other"), (Words{"serve", "--model=other", "--lora=b=/b", "--lora=c=/c"}));
  EXPECT_EQ(words("third"), (Words{"serve", "--model=third"}));
}

TEST(Program, AdaptersOfServeHaveNames) {
  const auto told = [](std::vector<std::string> flags) {
    ServeOptions options;
    options.adapters = std::move(flags);
    const auto adapters = named_adapters(options);
    if (!adapters) return adapters.error().message;
    std::string out;
    for (const auto& [name, path] : *adapters) out += fmt::format("{} at {};", name, path);
    return out;
  };
  EXPECT_EQ(told({"a=/b=c", "b=d"}), "a at /b=c;b at d;");
  for (const auto& [flag, says] : {std::pair<std::string, std::string>{"a", "NAME=PATH"},
                                   {"a=", "NAME=PATH"},
                                   {"=/b", "empty"},
                                   {"main=/b", "server's own"},
                                   {std::string(201, 'a') + "=/b", "200"}})
    EXPECT_NE(told({flag}).find(says), std::string::npos) << flag << told({flag});
  EXPECT_NE(told({"a=/b", "a=/c"}).find("two adapters"), std::string::npos);
  std::vector<std::string> many;
  for (int i = 0; i < 64; ++i) many.push_back(fmt::format("a{}=/b", i));
  EXPECT_NE(told(many).find("a63 at"), std::string::npos);
  many.emplace_back("one=/more");
  EXPECT_NE(told(many).find("64"), std::string::npos);
}

TEST(Program, AdaptersOfGenerateAreThere) {
  TempDir folder;
  folder.write("a", "");
  EXPECT_TRUE(check_adapters({folder.file("a")}).ok());
  EXPECT_FALSE(check_adapters({folder.file("a"), folder.file("b")}).ok());
  EXPECT_TRUE(check_adapters(AdapterFlags(8, folder.file("a"))).ok());
  EXPECT_FALSE(check_adapters(AdapterFlags(9, folder.file("a"))).ok());
}

// A setting says "on" or "off" where the flag has no value.
TEST(Program, SessionsOfAChatAreKeptIfTheyAreAskedFor) {
  const auto keeps = [](std::vector<std::string> words) {
    Program program;
    words.insert(words.begin(), {"chat", "--model=x"});
    program.app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    return program.chat.keep;
  };
  EXPECT_FALSE(keeps({}));
  EXPECT_FALSE(keeps({"--sessions=off"}));
  EXPECT_FALSE(keeps({"--sessions=false"}));
  EXPECT_TRUE(keeps({"--sessions"}));
  EXPECT_TRUE(keeps({"--sessions=on"}));
  EXPECT_TRUE(keeps({"--sessions", "folder"}));
  EXPECT_TRUE(keeps({"--resume"}));
  EXPECT_TRUE(keeps({"--resume", "--sessions=off"}));
}

// With --url another program runs the model: no flag that would load one here is taken in silence.
TEST(Program, NoFlagForLoadingGoesWithAUrl) {
  Program program;
  for (const char* name : {"chat", "mcp"}) {
    const CLI::App& command = *program.app.get_subcommand(name);
    const auto& excluded = command.get_option("--url")->get_excludes();
    for (const char* flag :
         {"--threads",  "--precise",       "--overcommit",         "--reference",  "--device",
          "--devices",  "--expert-memory", "--chat-template-file", "--lora",       "--prefill-chunk",
          "--context",  "--spec",          "--spec-depth",         "--draft",      "--lossy-skip",
          "--no-cache", "--cache-dir",     "--cache-ram",          "--cache-disk", "--cache-disk-worth",
          "--cache-kv"})
      EXPECT_TRUE(excluded.contains(const_cast<CLI::Option*>(command.get_option(flag)))) << flag;
    for (const char* flag : {"--model", "--temp", "--max-tokens", "--thinking", "--api-key-file", "--system"})
      EXPECT_FALSE(excluded.contains(const_cast<CLI::Option*>(command.get_option(flag)))) << flag;
  }
}

// docs/configuration.md lists the names that other programs give our flags: all of them, and no others.
TEST(Program, VllmsAdaptersFollowOneFlag) {
  const auto ours = [](std::vector<std::string> words) {
    use_our_names(words);
    return words;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(ours({"serve", "--lora-modules", "a=p", "b=q", "c=r", "--port", "80"}),
            (Words{"serve", "--lora", "a=p", "--lora", "b=q", "--lora", "c=r", "--port", "80"}));
  EXPECT_EQ(ours({"serve", "--lora-modules", "a=p", "--lora-modules", "b=q"}),
            (Words{"serve", "--lora", "a=p", "--lora", "b=q"}));
  for (const Words& same : {Words{"serve", "--lora", "a=p", "b=q"}, Words{"serve", "--lora", "a=p", "word"},
                            Words{"serve", "--", "--lora-modules", "a=p", "b=q"}})
    EXPECT_EQ(ours(same), same);
  EXPECT_EQ(ours({"serve", "--lora-modules=a=p", "--port", "80", "b=q"}),
            (Words{"serve", "--lora=a=p", "--port", "80", "b=q"}));
}

TEST(Program, TheDocsListTheFlagsOfOtherPrograms) {
  const Program program;
  const std::string page = *read_file(ANABRANCH_SOURCE_DIR "/docs/configuration.md", 1 << 20);
  const std::string begin = "| Ours | Also |\n|---|---|\n";
  const size_t at = page.find(begin);
  ASSERT_NE(at, page.npos);
  const std::string table = page.substr(at + begin.size(), page.find("\n\n", at) - at - begin.size());
  const std::regex flag("--[a-z-]+");
  std::set<std::string> listed;
  for (std::sregex_iterator it(table.begin(), table.end(), flag), end; it != end; ++it)
    listed.insert(it->str());
  std::set<std::string> known;
  const auto commands = program.app.get_subcommands({});
  for (const CLI::App* command : commands)
    for (const std::string& theirs : foreign_flags_of(command->get_name())) {
      const std::string ours = our_name(command->get_name(), theirs.substr(2));
      known.insert({theirs, "--" + ours});
      EXPECT_TRUE(std::ranges::any_of(commands, [&](const CLI::App* one) {
        return one->get_option_no_throw("--" + ours) != nullptr;
      })) << ours;
    }
  EXPECT_EQ(listed, known);
}

}  // namespace
}  // namespace anabranch::cli
