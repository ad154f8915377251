#include "chat/call_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "base/hash.h"

namespace anabranch {
namespace {

constexpr size_t kLength = 9;

bool is_short(std::string_view id) {
  return id.size() == kLength && std::ranges::all_of(id, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

std::string hashed(std::string_view text) {
  constexpr std::string_view kLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  Fnv1a hash;
  for (const char c : text) hash.add(static_cast<unsigned char>(c));
  uint64_t rest = hash.value();
  std::string id;
  for (; id.size() < kLength; rest /= kLetters.size()) id += kLetters[rest % kLetters.size()];
  return id;
}

class Shortener {
 public:
  void call(Json& call) {
    const std::string given = id_in(call, "id");
    std::string id = is_short(given) && !used_.contains(given) ? given : fresh(given);
    used_.insert(id);
    open_.push_back({given, id});
    last_[given] = id;
    call["id"] = std::move(id);
  }
  void result(Json& result) {
    const std::string given = id_in(result, "tool_call_id");
    result["tool_call_id"] = id_of_result(given);
  }

 private:
  struct Call {
    std::string given, id;
  };

  static std::string id_in(const Json& object, const char* key) {
    const auto id = object.find(key);
    if (id == object.end() || id->is_null()) return "";
    return id->is_string() ? id->get<std::string>() : dump_json(*id);
  }
  std::string fresh(const std::string& given) {
    std::string id = hashed(given);
    // Counts on where the last call with this id ended: a client may send thousands of them.
    for (int& number = numbers_[given]; used_.contains(id);)
      id = hashed(fmt::format("{} {}", given, ++number + 1));
    return id;
  }
  // A result without an id belongs to the oldest call that has none yet.
  std::string id_of_result(const std::string& given) {
    const auto call = given.empty() ? open_.begin() : std::ranges::find(open_, given, &Call::given);
    if (call != open_.end()) {
      std::string id = call->id;
      open_.erase(call);
      return id;
    }
    if (const auto known = last_.find(given); known != last_.end()) return known->second;
    std::string id = is_short(given) && !used_.contains(given) ? given : fresh(given);
    used_.insert(id);
    last_[given] = id;
    return id;
  }

  std::deque<Call> open_;                    // calls without a result so far
  std::map<std::string, std::string> last_;  // the latest call with an id: its new id
  std::map<std::string, int> numbers_;       // see fresh()
  std::set<std::string> used_;
};

// Visits the objects that have ids: calls, and results.
template <class Messages, class VisitCall, class VisitResult>
void for_each_id(Messages& messages, const VisitCall& call, const VisitResult& result) {
  for (auto& message : messages) {
    if (!message.is_object()) continue;
    if (const auto calls = message.find("tool_calls"); calls != message.end() && calls->is_array())
      for (auto& one : *calls)
        if (one.is_object()) call(one);
    if (string_at(message, "role") == "tool") result(message);
  }
}

}  // namespace

void shorten_call_ids(Json& messages) {
  Shortener ids;
  for_each_id(
      messages, [&](Json& call) { ids.call(call); }, [&](Json& result) { ids.result(result); });
}

bool misses_ids(const Json& messages) {
  bool misses = false;
  for_each_id(
      messages, [&](const Json& call) { misses |= string_at(call, "id").empty(); },
      [&](const Json& result) { misses |= string_at(result, "tool_call_id").empty(); });
  return misses;
}

}  // namespace anabranch
