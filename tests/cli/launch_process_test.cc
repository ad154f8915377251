#include "cli/launch_process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "temp_dir.h"
#include "variable.h"

namespace anabranch::cli {
namespace {

using testing::TempDir;
using testing::Variable;

// Scripts that PATH finds first.
class LaunchProcess : public ::testing::Test {
 protected:
  void script(const std::string& name, const std::string& text) {
    folder_.write(name, "#!/bin/sh\n" + text);
    std::filesystem::permissions(folder_.file(name), std::filesystem::perms::owner_all);
  }
  TempDir folder_;
  Variable path_{"PATH", (folder_.path() + ":/usr/bin:/bin").c_str()};
};

// Runs a program in another process, because run_program() changes signals and variables for good.
int status_of(const std::string& command, const std::vector<std::string>& arguments,
              const std::vector<std::pair<std::string, std::string>>& variables = {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto ran = run_program(command, arguments, variables);
    ::_exit(ran ? *ran : 99);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(LaunchProcess, ThePrintedTextIsThatOfStdout) {
  script("fake", "echo \"1.2.3 $1\"; echo 9.9.9 >&2");
  EXPECT_EQ(*output_of("fake", "--version"), "1.2.3 --version\n");
}

TEST_F(LaunchProcess, AMissingProgramIsNotOneThatFails) {
  script("failing", "exit 127");
  EXPECT_EQ(output_of("anabranch-no-such-program", "--version").error().kind, ErrorKind::not_found);
  EXPECT_EQ(output_of("failing", "--version").error().kind, ErrorKind::io);
}

TEST_F(LaunchProcess, TheStatusIsThatOfTheProgram) {
  script("fake", "exit $1");
  EXPECT_EQ(status_of("fake", {"0"}), 0);
  EXPECT_EQ(status_of("fake", {"3"}), 3);
  script("killed", "kill -TERM $$");
  EXPECT_EQ(status_of("killed", {}), 128 + SIGTERM);
  EXPECT_EQ(status_of("anabranch-no-such-program", {}), 99);
}

TEST_F(LaunchProcess, TheProgramHasItsWordsAndVariables) {
  script("fake", "echo \"$A|$HOME_OF_TEST|$1|$2\" >\"" + folder_.file("out") + "\"");
  const Variable ours("HOME_OF_TEST", "ours");
  EXPECT_EQ(status_of("fake", {"two words", "$A"}, {{"A", "a b"}}), 0);
  EXPECT_EQ(*read_file(folder_.file("out"), 100), "a b|ours|two words|$A\n");
}

// The program has the usual signals, whatever we do with ours.
TEST_F(LaunchProcess, SignalsArePassedOn) {
  script("fake", "trap 'exit 7' TERM; echo >\"" + folder_.file("ready") +
                     "\"; i=0; while [ $i -lt 600 ]; do i=$((i+1)); sleep 0.05; done");
  const pid_t child = ::fork();
  if (child == 0) {
    catch_ends();  // so that a signal may also come early
    const auto ran = run_program("fake", {}, {});
    ::_exit(ran ? *ran : 99);
  }
  while (!std::filesystem::exists(folder_.file("ready"))) ::usleep(1000);
  ::usleep(100'000);  // until we pass signals on
  ::kill(child, SIGTERM);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

// As above, in a process that catches signals before the program starts. early: a signal that comes then.
int status_after(int early, bool ignored, const std::string& command) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(early, ignored ? SIG_IGN : SIG_DFL);  // whatever the tests were started with
    const std::atomic<bool>& flag = catch_ends();
    ::raise(early);
    if (flag == ignored || last_end() != (ignored ? SIGINT : early)) ::_exit(98);
    const auto ran = run_program(command, {}, {});
    ::_exit(ran ? *ran : 99);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(LaunchProcess, ASignalThatComesWhileTheProgramStartsIsPassedOn) {
  script("fake", "i=0; while [ $i -lt 200 ]; do i=$((i+1)); sleep 0.05; done");
  for (const int signal : {SIGTERM, SIGHUP}) EXPECT_EQ(status_after(signal, false, "fake"), 128 + signal);
  script("short", "exit 3");
  EXPECT_EQ(status_after(SIGINT, false, "short"), 3);  // Ctrl-C is the program's
}

// As under nohup.
TEST_F(LaunchProcess, AnIgnoredSignalStaysIgnored) {
  script("fake", "kill -HUP $$; kill -HUP $PPID; sleep 0.1; exit 3");
  EXPECT_EQ(status_after(SIGHUP, true, "fake"), 3);
  script("term", "kill -TERM $$; exit 4");
  EXPECT_EQ(status_after(SIGTERM, true, "term"), 4);
  script("interrupt", "kill -INT $$; kill -INT $PPID; sleep 0.1; exit 5");
  EXPECT_EQ(status_after(SIGINT, true, "interrupt"), 5);
}

}  // namespace
}  // namespace anabranch::cli
