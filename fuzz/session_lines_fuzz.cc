// Exports of sessions, as clients send them to be imported.
#include <cstdlib>
#include <string_view>

#include "sessions/session_store.h"
#include "sessions/session_text.h"

using namespace anabranch;

// What is taken can be stored, and comes back as it is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto store = *SessionStore::open("", {.bytes = 1 << 20});
  const auto sessions = from_json_lines({reinterpret_cast<const char*>(data), size});
  if (!sessions) return 0;
  const auto made = store->create_all(*sessions);
  if (!made) return 0;
  for (size_t i = 0; i < made->size(); ++i) {
    const auto path = store->path({}, (*made)[i].id);
    if (!path || path->size() != (*sessions)[i].messages.size()) std::abort();
    for (size_t m = 0; m < path->size(); ++m)
      if (dump_json((*path)[m].message) != dump_json((*sessions)[i].messages[m].message)) std::abort();
    const auto again = from_json_lines(to_json_lines((*made)[i], *path));
    if (!again || again->size() != 1 || again->front().messages.size() != path->size()) std::abort();
    to_markdown((*made)[i], *path);
  }
  return 0;
}
