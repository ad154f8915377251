// Past messages of `chat`, kept in a file from one run to the next.
#pragma once

#include <string>
#include <vector>

namespace anabranch::terminal {

inline constexpr size_t kHistoryLines = 1000;
inline constexpr size_t kHistoryLineBytes = 64u << 10;  // longer messages are not kept

// The last messages of the file, oldest first: one JSON string per line. What cannot be read is left out.
std::vector<std::string> read_history(const std::string& path);
// Adds one, in a file that only its owner reads. False: it could not be written.
bool append_history(const std::string& path, const std::string& line);
// Writes the file anew with these when it has grown to more than twice what is read. A line that another
// program adds meanwhile is lost.
void trim_history(const std::string& path, const std::vector<std::string>& lines);

}  // namespace anabranch::terminal
