#include "server/api/anthropic/cache_marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace anabranch::server {

void CacheMarks::read(JsonFields& fields, CacheMark place) {
  const Json* control = fields.object("cache_control");
  if (!control) return;
  JsonFields inner(*control, fields.named("cache_control."));
  inner.required_string("type");
  inner.only("type", {"ephemeral"}, "it must be ephemeral");
  inner.only("ttl", {"5m", "1h"}, "it must be 5m or 1h");
  if (inner.error()) fields.fail(*inner.error());
  place.hour = inner.find("ttl") && *inner.find("ttl") == "1h";
  marks_.push_back(place);
}

void CacheMarks::end_toolsets(const Json& tools) {
  for (CacheMark& mark : marks_)
    if (mark.in == CacheMark::In::tools && mark.index == kToolsetEnd)
      mark.index = tools.empty() ? kNoTool : tools.size() - 1;
}

std::vector<CacheMark> CacheMarks::finish(JsonFields& request, const Json& messages) {
  if (messages.empty()) return {};
  const size_t last = messages.size() - 1, text = string_at(messages[last], "content").size();
  const bool marked = std::ranges::any_of(marks_, [&](const CacheMark& mark) {
    return mark.in == CacheMark::In::message && mark.index == last && mark.bytes >= text;
  });
  CacheMarks whole;
  whole.read(request, {CacheMark::In::message, last});
  if (!marked && !whole.marks_.empty()) marks_.push_back(whole.marks_[0]);
  if (marks_.size() > kMaxCacheMarks)
    request.fail("cache_control", "invalid_value",
                 fmt::format("A maximum of {} blocks with cache_control may be provided. Found {}.",
                             kMaxCacheMarks, marks_.size()));
  return std::exchange(marks_, {});
}

}  // namespace anabranch::server
