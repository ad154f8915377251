#include "server/api/responses/items.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "server/api/common_fields.h"
#include "server/api/sealed_text.h"
#include "server/api/session_json.h"

namespace anabranch::server {
namespace {

// Whether the item only names another one. OpenAI's clients may leave out the type of references.
bool is_reference(const Json& item) {
  if (!item.is_object()) return false;
  const JsonFields fields(item);
  if (const Json* type = fields.find("type")) return *type == "item_reference";
  return fields.find("id") && !fields.find("role") && !fields.find("content");
}

// A few bytes in a request can name the same large items again and again.
constexpr size_t kMostReferences = 1024, kMostReferencedBytes = 32u << 20;

void replace_references(JsonFields& fields, SessionStores& stores, const std::string& owner, Json& items) {
  std::set<std::string> distinct;
  for (const Json& item : items)
    if (is_reference(item)) distinct.insert(string_at(item, "id"));
  if (distinct.empty()) return;
  if (distinct.size() > kMostReferences)
    return fields.fail(
        "input", "limit_exceeded",
        fmt::format("'input' refers to more than {} items: send the items themselves", kMostReferences));
  const auto found = stores.find_items(owner, std::vector<std::string>(distinct.begin(), distinct.end()));
  if (!found) return fields.fail(session_error(found.error()));
  std::map<std::string, size_t> sizes;
  for (const auto& [id, item] : *found) sizes[id] = dump_json(item).size();
  size_t bytes = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!is_reference(items[i])) continue;
    const std::string id = string_at(items[i], "id");
    const auto one = found->find(id);
    if (one == found->end())
      return fields.fail(
          fmt::format("input[{}].id", i), "item_not_found",
          fmt::format("'input[{}]' refers to an item that is not stored here: send the item itself", i));
    bytes += sizes[id];
    if (bytes > kMostReferencedBytes)
      return fields.fail("input", "limit_exceeded",
                         fmt::format("the items that 'input' refers to have more than {} MiB together",
                                     kMostReferencedBytes >> 20));
    items[i] = one->second;
  }
}

}  // namespace

Json read_input_items(JsonFields& fields, SessionStores& stores, const std::string& owner) {
  const Json* input = fields.find("input");
  if (!input) return Json::array();
  if (input->is_string())
    return Json::array({{{"type", "message"},
                         {"role", "user"},
                         {"content", Json::array({{{"type", "input_text"}, {"text", *input}}})},
                         {"id", random_id("msg_")}}});
  if (!input->is_array() || input->size() > kMaxMessages) {
    fields.fail("input", "invalid_type",
                fmt::format("'input' must be a string or an array of at most {} items", kMaxMessages));
    return Json::array();
  }
  Json items = *input;
  replace_references(fields, stores, owner, items);
  for (Json& item : items) {
    if (!item.is_object()) continue;
    if (!item.contains("type") || item["type"].is_null()) item["type"] = "message";
    if (!item.contains("id") || !item["id"].is_string()) item["id"] = random_id("item_");
  }
  return items;
}

}  // namespace anabranch::server
