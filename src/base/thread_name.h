// Names of threads, shown by top, gdb and perf.
#pragma once

namespace anabranch {

// Names the calling thread. name: at most 15 bytes; the rest is cut off.
void name_thread(const char* name);

}  // namespace anabranch
