// Past messages of `chat`, stored in a file between runs.
#pragma once

#include <string>
#include <vector>

namespace anabranch::terminal {

inline constexpr size_t kHistoryLines = 1000;
inline constexpr size_t kHistoryLineBytes = 64u << 10;  // longer messages are not stored

// The last messages of the file, oldest first: one JSON string per line. Unreadable lines are skipped.
std::vector<std::string> read_history(const std::string& path);
// Appends a message; only the owner can read the file. False: it could not be written.
bool append_history(const std::string& path, const std::string& line);
// Replaces the file's content with these lines when it has grown to more than twice the size that is read. A
// line that another program appends meanwhile is lost.
void trim_history(const std::string& path, const std::vector<std::string>& lines);

}  // namespace anabranch::terminal
