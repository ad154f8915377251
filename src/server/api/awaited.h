// Data that a request needs from other servers. The request is read once to find out what it needs, and again
// when everything has arrived, so no thread that reads requests waits for other servers.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"

namespace anabranch::server {

// Thread-safe.
template <class Value>
class Awaited {
 public:
  // The value for this name. None: it has not arrived, and the name is noted as wanted.
  std::optional<Result<Value>> take(const std::string& name) {
    std::lock_guard lock(mutex_);
    if (const auto it = came_.find(name); it != came_.end()) return it->second;
    wanted_.insert(name);
    return std::nullopt;
  }
  // Whether any names are noted, so that the request must be read again.
  bool lacks_any() const {
    std::lock_guard lock(mutex_);
    return !wanted_.empty();
  }
  // Returns the noted names and clears the list.
  std::set<std::string> begin() {
    std::lock_guard lock(mutex_);
    return std::exchange(wanted_, {});
  }
  void put(const std::string& name, Result<Value> value) {
    std::lock_guard lock(mutex_);
    came_.insert_or_assign(name, std::move(value));
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> wanted_;
  std::map<std::string, Result<Value>> came_;
};

}  // namespace anabranch::server
