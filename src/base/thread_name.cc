#include "base/thread_name.h"

#include <pthread.h>

#include <string>

namespace anabranch {

void name_thread(const char* name) {
  const std::string short_name = std::string(name).substr(0, 15);
#if defined(__APPLE__)
  pthread_setname_np(short_name.c_str());
#else
  pthread_setname_np(pthread_self(), short_name.c_str());
#endif
}

}  // namespace anabranch
