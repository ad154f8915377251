// The keys that clients must show, if any are set, and what the requests of each key may use.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/http/api_error.h"
#include "server/http/rate_limit.h"
#include "server/http/types.h"

namespace anabranch::server {

// The cached prefixes that requests may reuse. key: only those that their own key has sent. all: those of
// everybody with this scope.
enum class CacheScope { key, all };
// The scope with this name; nothing: there is none.
std::optional<CacheScope> parse_cache_scope(std::string_view name);

// The role that a route requires of a key. Keys have all roles unless their line in the key file names some.
enum class Role : uint8_t {
  admin,   // data about all clients: metrics, slots, cached states
  chat,    // answers, embeddings, counts, and the key's own conversations
  tools,   // MCP servers
  models,  // load, unload and download models
  any,     // any key
  open     // not even a key
};
inline constexpr unsigned role_bit(Role role) {
  return 1u << static_cast<unsigned>(role);
}
inline constexpr unsigned kAllRoles = ~0u;
// 403 missing_role. key: its name.
ApiError missing_role(const std::string& key, Role role);

struct ApiKey {
  std::string key;
  std::string name;                      // in logs; empty: made from the key's digest
  int concurrent = 0;                    // requests at a time; 0: no limit
  int tokens_per_minute = 0;             // of prompts and answers; 0: no limit
  std::optional<int> priority = {};      // of its requests, whatever they ask for
  std::optional<CacheScope> cache = {};  // unset: see ApiKeys::make
  unsigned roles = kAllRoles;            // bits of Role
};

// A key, and what its requests currently use. Running requests share it. I/O thread only.
struct KeyState {
  std::string name;
  unsigned roles = kAllRoles;
  bool may(Role role) const { return role >= Role::any || (roles & role_bit(role)); }
  int concurrent = 0;
  std::optional<int> priority;
  CacheScope cache = CacheScope::all;
  RateLimit tokens;
  int running = 0;
};

// A request's share of its key's limits, until it is destroyed. With a null key it does nothing.
class KeyUse {
 public:
  KeyUse() = default;
  KeyUse(KeyUse&& other) noexcept = default;
  KeyUse& operator=(KeyUse&& other) noexcept;
  ~KeyUse() { end(); }
  // 429 rate_limit_exceeded if a limit of the key is reached. key: may be null.
  static std::optional<ApiError> refusal(KeyState* key, double now);
  // 429 if the key's token limit is reached, for requests that use no tokens themselves.
  static std::optional<ApiError> tokens_refusal(KeyState* key, double now);
  // To be called only if refusal() returned nothing.
  static KeyUse begin(std::shared_ptr<KeyState> key);

  void add_tokens(int tokens, double now) {
    if (key_) key_->tokens.take(tokens, now);
  }
  // The key's name; empty: no key.
  std::string name() const { return key_ ? key_->name : ""; }
  std::optional<int> priority() const { return key_ ? key_->priority : std::nullopt; }
  // The value for RequestDefaults::cache_space.
  std::string cache_space() const { return key_ && key_->cache == CacheScope::key ? key_->name : ""; }
  bool may(Role role) const { return !key_ || key_->may(role); }

 private:
  void end();
  std::shared_ptr<KeyState> key_;
};

// Stores only digests (SHA-256) of the keys.
class ApiKeys {
 public:
  ApiKeys() = default;
  // Errors: invalid (a key that is empty or that a header cannot hold: only visible ASCII can; or two keys of
  // one name). scope: for keys without a scope of their own; unset: `key` if there are several keys.
  static Result<ApiKeys> make(const std::vector<ApiKey>& keys, std::optional<CacheScope> scope = {});

  // True if no keys are set, so that every request is allowed.
  bool empty() const { return entries_.empty(); }
  // The key that the request shows as "Authorization: Bearer KEY" or "x-api-key: KEY"; null: no known key.
  // Takes the same time for all wrong keys of one length.
  std::shared_ptr<KeyState> find(const HttpRequest& request) const;
  // Keys that are in both sets keep the state, and so the usage, of the other set.
  void take_over(const ApiKeys& others);

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    Digest digest;
    std::shared_ptr<KeyState> state;
  };
  static Digest digest(std::string_view key);
  std::vector<Entry> entries_;
};

// Reads keys from a file, one per line: "KEY", or "NAME KEY" with limits and roles behind it, such as
// "concurrent=4 tokens_per_minute=60000 priority=1 cache=all roles=chat,tools". Empty lines and lines that
// begin with # are ignored. It must be a regular file of at most 1 MiB. Errors: those of read_file(), invalid
// (the file has no key, or a malformed line; messages do not repeat keys).
Result<std::vector<ApiKey>> read_key_file(const std::string& path);

}  // namespace anabranch::server
