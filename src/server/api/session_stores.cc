#include "server/api/session_stores.h"

#include <algorithm>
#include <filesystem>

#include "base/log.h"

namespace anabranch::server {
namespace {

constexpr uint64_t kMemoryBytes = 64u << 20;  // limit for each key

}  // namespace

Result<std::unique_ptr<SessionStores>> SessionStores::open(const SessionOptions& options) {
  std::unique_ptr<SessionStores> stores(new SessionStores(options));
  TRY(stores->memory_, stores->open_store("", {.bytes = kMemoryBytes}));
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

Result<std::unique_ptr<SessionStore>> SessionStores::open_store(const std::string& directory,
                                                                const Retention& retention) {
  return SessionStore::open(directory, retention, [this] {
    const std::lock_guard lock(due_mutex_);
    is_due_ = true;
    if (due_) due_();
  });
}

Result<SessionStore*> SessionStores::kept() {
  if (options_.directory.empty())
    return make_error(ErrorKind::not_found, "This server keeps no conversations (serve --sessions off)");
  std::lock_guard lock(mutex_);
  if (!disk_) {
    TRY(disk_, open_store(options_.directory, options_.retention));
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

std::vector<SessionStore*> SessionStores::all() {
  std::vector<SessionStore*> stores = {memory_.get()};
  if (const auto disk = kept_if_there(); disk && *disk) stores.push_back(*disk);
  return stores;
}

Result<std::vector<std::string>> SessionStores::take_released() {
  std::vector<std::string> released;
  const auto stores = all();
  for (SessionStore* store : stores) {
    const auto more = store->take_released();
    released.insert(released.end(), more.begin(), more.end());
  }
  if (released.empty()) return released;
  std::vector<std::string> traces = released;
  for (SessionStore* store : stores)
    if (const auto dropped = store->drop_used(traces); !dropped) {
      put_back(released);
      return dropped.error();
    }
  return traces;
}

bool SessionStores::has_released() {
  return std::ranges::any_of(all(), &SessionStore::has_released);
}

void SessionStores::upkeep() {
  for (SessionStore* store : all())
    if (const auto done = store->upkeep(); !done)
      log_warning("old conversations were not removed or not overwritten yet: {}", done.error().message);
}

void SessionStores::tell_upkeep(std::function<void()> due) {
  const std::lock_guard lock(due_mutex_);
  due_ = std::move(due);
  if (due_ && is_due_) due_();
}

Result<SessionStore*> SessionStores::of_session(const Owner& owner, const std::string& id) {
  return store_where([&](SessionStore& store) { return store.find(owner, id); });
}

Result<SessionStore*> SessionStores::of_response(const Owner& owner, const std::string& id) {
  return store_where([&](SessionStore& store) { return store.find_response(owner, id); });
}

Result<std::map<std::string, Json>> SessionStores::find_items(const Owner& owner,
                                                              std::span<const std::string> ids) {
  std::map<std::string, Json> found;
  for (SessionStore* store : all()) {
    TRY(auto items, store->find_items(owner, ids));
    found.merge(items);
  }
  return found;
}

}  // namespace anabranch::server
