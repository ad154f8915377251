#include "server/api/session_stores.h"

#include <filesystem>

#include "base/log.h"

namespace anabranch::server {
namespace {

constexpr uint64_t kMemoryBytes = 128u << 20;

}  // namespace

Result<std::unique_ptr<SessionStores>> SessionStores::open(const SessionOptions& options) {
  std::unique_ptr<SessionStores> stores(new SessionStores(options));
  TRY(stores->memory_, SessionStore::open("", {.bytes = kMemoryBytes}));
  if (options.keep_responses) TRY_VOID(stores->kept());
  return stores;
}

Result<SessionStore*> SessionStores::kept() {
  if (options_.directory.empty())
    return make_error(ErrorKind::not_found, "This server keeps no conversations (serve --sessions off)");
  std::lock_guard lock(mutex_);
  if (!disk_) {
    TRY(disk_, SessionStore::open(options_.directory, options_.retention));
  }
  return disk_.get();
}

Result<SessionStore*> SessionStores::kept_if_there() {
  std::error_code ignored;
  if (options_.directory.empty() || !std::filesystem::exists(session_file(options_.directory), ignored))
    return static_cast<SessionStore*>(nullptr);
  return kept();
}

template <class Find>
Result<SessionStore*> SessionStores::store_where(Find find) {
  auto in_memory = find(*memory_);
  if (in_memory) return memory_.get();
  TRY(SessionStore * disk, kept_if_there());
  if (!disk) return in_memory.error();
  if (auto on_disk = find(*disk); !on_disk) return on_disk.error();
  return disk;
}

void SessionStores::scrub() {
  const auto disk = kept_if_there();
  for (SessionStore* store : {memory_.get(), disk ? *disk : nullptr})
    if (const auto done = store ? store->scrub() : Result<void>(); !done)
      log_warning("removed conversations were not overwritten yet: {}", done.error().message);
}

Result<SessionStore*> SessionStores::of_session(const Owner& owner, const std::string& id) {
  return store_where([&](SessionStore& store) { return store.find(owner, id); });
}

Result<SessionStore*> SessionStores::of_response(const Owner& owner, const std::string& id) {
  return store_where([&](SessionStore& store) { return store.find_response(owner, id); });
}

}  // namespace anabranch::server
