// The amount of memory that is available now.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace anabranch {

// Bytes that this process may still allocate before the system swaps or its container's limit is reached; 0:
// the system does not report it.
uint64_t available_memory();

// Bytes that this process's container may use in total; 0: there is no such limit.
uint64_t memory_limit(const std::string& root = "");

// Bytes that this process may use in total: the machine's memory, or its container's limit if that is less.
uint64_t machine_memory();

// Bytes of memory that this process uses now; 0: not known (always known on Linux).
uint64_t resident_memory();

// Available memory as Linux reports it in `root`/proc and `root`/sys. Missing or unreadable files are
// ignored.
uint64_t read_linux_memory(const std::string& root);

// From now on the allocator returns each freed block of 4 MiB or more to the system (glibc otherwise raises
// this size to that of the largest block freed so far), and all threads share four heaps (glibc otherwise
// makes eight for each core, and each keeps what it freed; $MALLOC_ARENA_MAX says another number). Call it
// before the first thread starts.
void keep_little_freed_memory();
// Prevents the process's present memory from being swapped out. Error (unsupported): the system forbids it
// (the message says how to allow it), or does not support it.
Result<void> lock_memory();
// Returns freed memory that the allocator still holds to the system. Any thread; takes milliseconds.
void return_free_memory();

}  // namespace anabranch
