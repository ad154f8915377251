#include "grammar/schema_members.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/json_rules.h"

namespace anabranch {

std::string MembersWriter::rest(size_t i, int64_t count) {
  if (const auto it = known_.find({i, count}); it != known_.end()) return it->second;
  const std::string name = rules_.reserve("members"), s = add_space(rules_);
  known_.emplace(std::pair(i, count), name);
  const int64_t cap = std::max<int64_t>({1, members_.least, members_.most.value_or(0)});
  const std::string before = count > 0 ? fmt::format("{0} \",\" {0} ", s) : "";
  const bool more = !members_.most || count < *members_.most;
  const int64_t next = std::min(count + 1, cap);
  std::vector<std::string> out;
  const auto follow = [&](const std::string& text, size_t to, int64_t written) {
    if (const auto behind = rest(to, written); !behind.empty())
      out.push_back(fmt::format("{}{} {}", before, text, behind));
  };
  if (i < members_.named.size()) {
    const auto& [text, required] = members_.named[i];
    if (more) follow(text, i + 1, next);
    if (!required)
      if (const auto behind = rest(i + 1, count); !behind.empty()) out.push_back(behind);
  } else {
    if (count >= members_.least) out.push_back((count > 0 ? s + " " : "") + literal(members_.close));
    if (more && !members_.other.empty()) follow(members_.other, i, next);
  }
  if (out.empty()) {  // no number of further members meets the limits
    known_.at({i, count}) = "";
    return "";
  }
  rules_.define(name, fmt::format("{}", fmt::join(out, " | ")));
  return name;
}

}  // namespace anabranch
