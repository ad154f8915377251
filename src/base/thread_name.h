// Names of threads, as top, gdb and perf show them.
#pragma once

namespace anabranch {

// Names the calling thread. name: at most 15 bytes; what is longer is cut.
void name_thread(const char* name);

}  // namespace anabranch
