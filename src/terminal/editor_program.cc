#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/file_descriptor.h"
#include "base/private_file.h"
#include "terminal/line_editor.h"

extern char** environ;

namespace anabranch::terminal {
namespace {

constexpr size_t kMostBytes = 16u << 20;

std::string editor_command() {
  for (const char* variable : {"VISUAL", "EDITOR"})
    if (const char* value = std::getenv(variable); value && *value) return value;
  const char* path = std::getenv("PATH");
  for (const char* program : {"nano", "vim", "vi"}) {
    std::istringstream folders(path ? path : "/usr/bin:/bin");
    for (std::string folder; std::getline(folders, folder, ':');)
      if (::access((folder + "/" + program).c_str(), X_OK) == 0) return program;
  }
  return "";
}

// Runs the command on the file, in this process's terminal. False: it failed.
bool run_editor(const std::string& command, const std::string& file) {
  const std::string script = command + " \"$1\"";
  const char* arguments[] = {"sh", "-c", script.c_str(), "sh", file.c_str(), nullptr};
  pid_t child;
  if (posix_spawn(&child, "/bin/sh", nullptr, nullptr, const_cast<char**>(arguments), environ) != 0)
    return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

std::optional<std::string> edit_text(const std::string& text, std::string& problem) {
  const std::string command = editor_command();
  if (command.empty()) return problem = "no editor was found: set EDITOR", std::nullopt;
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "anabranch-XXXXXX.md").string();
  {
    const FileDescriptor file(::mkstemps(path.data(), 3));  // mode 0600
    if (!file.ok() || !write_all(*file, text)) {
      if (file.ok()) ::unlink(path.c_str());
      return problem = "cannot write " + path, std::nullopt;
    }
  }
  const bool ran = run_editor(command, path);
  std::ifstream file(path, std::ios::binary);
  std::string out(kMostBytes + 1, '\0');
  file.read(out.data(), static_cast<std::streamsize>(out.size()));
  out.resize(static_cast<size_t>(file.gcount()));
  ::unlink(path.c_str());
  if (!ran) return problem = command + " failed", std::nullopt;
  if (out.size() > kMostBytes) return problem = "the text is longer than 16 MiB", std::nullopt;
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

}  // namespace anabranch::terminal
