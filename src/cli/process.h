// How the process ends when something fails that no sub-command can handle: memory, threads, its output.
#pragma once

#include <exception>

namespace anabranch::cli {

// From now on a failure of the system in any thread (no memory, no thread) ends the process with a message
// and status 1 instead of an abort.
void end_with_a_message();
// Says what failed and returns the exit status.
int failed_by(const std::exception& e);
// Writes what is left of stdout. Returns `status`; 1 with a message if some of the output is lost; quietly
// 141 (as SIGPIPE's) if nobody reads it any more.
int finish_output(int status);

}  // namespace anabranch::cli
