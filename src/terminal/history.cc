#include "terminal/history.h"

#include <fcntl.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "base/file_descriptor.h"
#include "base/json.h"
#include "base/private_file.h"

namespace anabranch::terminal {
namespace {

std::string as_line(const std::string& text) {
  return dump_json(text) + "\n";
}

size_t count_lines(const std::string& path) {
  std::ifstream file(path);
  size_t n = 0;
  for (std::string line; std::getline(file, line);) n++;
  return n;
}

}  // namespace

std::vector<std::string> read_history(const std::string& path) {
  std::deque<std::string> last;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.size() > 8 * kHistoryLineBytes) continue;
    const auto value = parse_json(line);
    if (!value || !value->is_string() || value->get_ref<const std::string&>().empty()) continue;
    last.push_back(value->get<std::string>());
    if (last.size() > kHistoryLines) last.pop_front();
  }
  return {last.begin(), last.end()};
}

bool append_history(const std::string& path, const std::string& line) {
  if (line.size() > kHistoryLineBytes) return true;
  make_private_directory(std::filesystem::path(path).parent_path());
  if (!make_private_file(path)) return false;
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  return file.ok() && write_all(*file, as_line(line));
}

void trim_history(const std::string& path, const std::vector<std::string>& lines) {
  if (count_lines(path) <= 2 * kHistoryLines) return;
  std::string next = path + ".XXXXXX";
  {
    const FileDescriptor file(::mkstemp(next.data()));  // mode 0600
    std::string all;
    for (const std::string& line : lines) all += as_line(line);
    if (!file.ok()) return;
    if (!write_all(*file, all)) return (void)::unlink(next.c_str());
  }
  std::error_code ignored;
  std::filesystem::rename(next, path, ignored);
}

}  // namespace anabranch::terminal
