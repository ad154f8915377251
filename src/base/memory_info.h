// How much memory is left, now.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace anabranch {

// Bytes that this process may still take before the system swaps or its container's limit is reached; 0: the
// system does not tell.
uint64_t available_memory();

// Bytes that this process's container may take in all; 0: there is no such limit.
uint64_t memory_limit(const std::string& root = "");

// Bytes that this process may take in all: the machine's memory, or its container's limit if that is less.
uint64_t machine_memory();

// Bytes of memory that this process takes now; 0: not known (it is on Linux).
uint64_t resident_memory();

// What Linux tells of available memory in `root`/proc and `root`/sys. What is missing or unreadable there
// does not count.
uint64_t read_linux_memory(const std::string& root);

// From now on large blocks come from the system and go back to it one by one, whatever sizes were freed
// before. Call it before the first thread starts.
void return_large_blocks();
// Keeps the memory that the process has now from being swapped out. Error (unsupported): the system forbids
// it (the message says how to allow it), or cannot do it.
Result<void> lock_memory();
// Gives memory that was freed back to the system, as far as the allocator holds any. Any thread; takes
// milliseconds.
void return_free_memory();

}  // namespace anabranch
