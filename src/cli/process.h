// Signals, and how the process ends when something fails that no sub-command can handle: memory, threads, its
// output.
#pragma once

#include <signal.h>

#include <exception>

namespace anabranch::cli {

// After this call, a system failure in any thread (no memory, no thread) ends the process with a message and
// status 1 instead of an abort.
void end_with_a_message();
// Prints what failed and returns the exit status.
int failed_by(const std::exception& e);
// Flushes stdout. Returns `status`; 1 with a message if some of the output is lost; 141 (like SIGPIPE)
// without a message if nobody reads it any more.
int finish_output(int status);

// Whether the signal is ignored, as SIGHUP is under nohup and SIGINT in a background job of a script.
bool is_ignored(int signal);
// Sets a handler for the signal, unless it is ignored. Returns the action before.
struct sigaction handle_signal(int signal, void (*handler)(int));

}  // namespace anabranch::cli
