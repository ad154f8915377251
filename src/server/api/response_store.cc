#include "server/api/response_store.h"

namespace anabranch::server {

void ResponseStore::put(StoredResponse response) {
  response.bytes = dump_json(response.response).size() + dump_json(response.input_items).size() +
                   dump_json(response.messages).size();
  if (response.bytes > kMaxBytes) return;
  auto kept = std::make_shared<const StoredResponse>(std::move(response));
  std::lock_guard lock(mutex_);
  bytes_ += kept->bytes;
  order_.push_back(kept);
  by_id_[kept->id] = std::prev(order_.end());
  while (order_.size() > kMaxResponses || bytes_ > kMaxBytes) drop(order_.begin());
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : *it->second;
}

bool ResponseStore::erase(const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto it = by_id_.find(id);
  if (it == by_id_.end()) return false;
  drop(it->second);
  return true;
}

void ResponseStore::drop(Order::iterator at) {
  bytes_ -= (*at)->bytes;
  by_id_.erase((*at)->id);
  order_.erase(at);
}

}  // namespace anabranch::server
