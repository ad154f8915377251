#include "server/api/session_stores.h"

#include <filesystem>

#include "base/log.h"

namespace anabranch::server {
namespace {

constexpr uint64_t kMemoryBytes = 64u << 20;  // of each key

}  // namespace

Result<std::unique_ptr<SessionStores>> SessionStores::open(const SessionOptions& options) {
  std::unique_ptr<SessionStores> stores(new SessionStores(options));
  TRY(stores->memory_, SessionStore::open("", {.bytes = kMemoryBytes}));
  if (!options.keep_responses) return stores;
  const auto disk = stores->kept();
  std::error_code ignored;
  if (!disk && !std::filesystem::exists(session_file(options.directory), ignored)) return disk.error();
  if (!disk)
    log_error(
        "conversations are not kept, and those that were kept are not read: {}; the file stays as it is",
        disk.error().message);
  stores->usual_on_disk_ = disk.ok();
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

std::vector<std::string> SessionStores::take_released() {
  const auto disk = kept_if_there();
  std::vector<std::string> traces;
  std::vector<SessionStore*> stores = {memory_.get()};
  if (disk && *disk) stores.push_back(*disk);
  for (SessionStore* store : stores) {
    const auto released = store->take_released();
    traces.insert(traces.end(), released.begin(), released.end());
  }
  for (SessionStore* store : stores)
    if (!traces.empty())
      if (const auto dropped = store->drop_used(traces); !dropped) {
        log_warning("states of removed conversations stay: {}", dropped.error().message);
        return {};
      }
  return traces;
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
