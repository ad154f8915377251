#include "cli/flag_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace anabranch::cli {
namespace {

enum class Colour { red, green };

struct Options {
  bool loud = false;
  int count = 1;
  double seconds = 2;
  uint64_t bytes = 3;
  std::string name, file;
  std::vector<std::string> peers, hosts;
  Colour colour = Colour::red;
  std::optional<Colour> border;
};

// A program with one sub-command "do" that has all kinds of flags.
class FlagTable : public ::testing::Test {
 protected:
  FlagTable() {
    std::vector<Flag> others = {
        {"--peer", o_.peers, "Peers", repeated()},
        {"--hosts", o_.hosts, "Hosts", listed()},
        {"--colour", named(o_.colour, {{"red", Colour::red}, {"green", Colour::green}}), "Colour"},
        {"--border", named(o_.border, {{"red", Colour::red}, {"green", Colour::green}}), "Border", OfModel()},
    };
    // Rules may name flags that come later.
    command_ = add_command(app_, "do", "Do it", {{"Others", std::move(others)}},
                           {
                               {"-l,--loud", o_.loud, "Loud", needs("--name")},
                               {"--count", o_.count, "Count", within(0, 9), excludes("--seconds")},
                               {"--seconds", o_.seconds, "Seconds", within(0.5, 10.0)},
                               {"--bytes", o_.bytes, "Bytes", size(), within(2.0, 1e6)},
                               {"--name", o_.name, "Name", one_of({"a", "b"})},
                               {"file", o_.file, "File", required()},
                           });
  }

  // The parser's complaint; "": none.
  std::string parse(std::vector<std::string> words) {
    std::vector<std::string> all = {"do"};
    all.insert(all.end(), words.begin(), words.end());
    try {
      app_.parse(std::vector<std::string>(all.rbegin(), all.rend()));
      return "";
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
  }

  Options o_;
  CLI::App app_{"test", "test"};
  CLI::App* command_ = nullptr;
};

TEST_F(FlagTable, RowsSetTheirMembers) {
  EXPECT_EQ(parse({"f", "-l", "--name", "b", "--count=4", "--bytes", "2KB", "--peer", "x", "--peer=y",
                   "--hosts", "p,q", "--colour", "green", "--border", "red"}),
            "");
  EXPECT_TRUE(o_.loud);
  EXPECT_EQ(o_.file, "f");
  EXPECT_EQ(o_.name, "b");
  EXPECT_EQ(o_.count, 4);
  EXPECT_EQ(o_.bytes, 2048u);
  EXPECT_EQ(o_.peers, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(o_.hosts, (std::vector<std::string>{"p", "q"}));
  EXPECT_EQ(o_.colour, Colour::green);
  EXPECT_EQ(o_.border, Colour::red);
}

TEST_F(FlagTable, WithoutFlagsMembersStayAsTheyAre) {
  EXPECT_EQ(parse({"f"}), "");
  EXPECT_FALSE(o_.loud);
  EXPECT_EQ(o_.count, 1);
  EXPECT_EQ(o_.colour, Colour::red);
  EXPECT_FALSE(o_.border);
}

TEST_F(FlagTable, WrongValuesAreRefused) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"--count", "10"},
                                                                 {"--count", "-1"},
                                                                 {"--count", "1.5"},
                                                                 {"--count", "many"},
                                                                 {"--seconds", "0.49"},
                                                                 {"--seconds", "nan"},
                                                                 {"--seconds", "-inf"},
                                                                 {"--bytes", "7"},
                                                                 {"--bytes", "1B"},
                                                                 {"--bytes", "2MB"},
                                                                 {"--bytes", "-1KB"},
                                                                 {"--bytes", "1QB"},
                                                                 {"--bytes", "nanKB"},
                                                                 {"--name", "c"},
                                                                 {"--name", ""},
                                                                 {"--colour", "blue"},
                                                                 {"--colour", ""},
                                                                 {"--border", "Red"},
                                                                 {"--loud=maybe", "--name=a"}}) {
    std::vector<std::string> all = {"f"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_NE(parse(all), "") << words.front() << " " << words.back();
  }
  EXPECT_NE(parse({}), "");  // the file is missing
}

TEST_F(FlagTable, FlagsThatDoNotGoTogetherAreRefused) {
  EXPECT_NE(parse({"f", "--loud"}).find("--name"), std::string::npos);
  EXPECT_NE(parse({"f", "--count", "2", "--seconds", "3"}).find("excludes"), std::string::npos);
  EXPECT_NE(parse({"f", "--name", "a", "--name", "b"}), "");  // it is given once
  EXPECT_NE(parse({"f", "--peer", "x", "y"}), "");            // each time with one value
}

TEST_F(FlagTable, HeadingsAndOrderAreThoseOfTheTable) {
  EXPECT_EQ(command_->get_option("--peer")->get_group(), "Others");
  EXPECT_EQ(command_->get_option("--count")->get_group(), command_->get_option("--help")->get_group());
  std::vector<std::string> names;
  for (const CLI::Option* option : command_->get_options()) names.push_back(option->get_name());
  EXPECT_EQ(names, (std::vector<std::string>{"--help", "--peer", "--hosts", "--colour", "--border", "--loud",
                                             "--count", "--seconds", "--bytes", "--name", "file"}));
}

// `config show` prints defaults, and a value of an enumeration as its word.
TEST(FlagTables, DefaultsAreWords) {
  Options o;
  o.colour = Colour::green;
  CLI::App app;
  app.option_defaults()->always_capture_default();
  auto* command =
      add_command(app, "do", "Do it", {},
                  {{"--colour", named(o.colour, {{"red", Colour::red}, {"green", Colour::green}}), "Colour"},
                   {"--border", named(o.border, {{"red", Colour::red}, {"green", Colour::green}}), "Border"},
                   {"--count", o.count, "Count"}});
  EXPECT_EQ(command->get_option("--colour")->get_default_str(), "green");
  EXPECT_EQ(command->get_option("--border")->get_default_str(), "");
  EXPECT_EQ(command->get_option("--count")->get_default_str(), "1");
}

TEST(FlagTables, RowsSayWhatTheyAre) {
  Options o;
  const Flag loud = {"-l,--loud", o.loud, "Loud"}, name = {"--name", o.name, "Name", OfModel()};
  EXPECT_TRUE(loud.is_switch && !loud.of_model);
  EXPECT_TRUE(!name.is_switch && name.of_model);
  EXPECT_TRUE(name.rules.empty());
}

}  // namespace
}  // namespace anabranch::cli
