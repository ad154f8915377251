#include "output/tool_names.h"

#include <set>

#include "output/tool_call.h"
#include "output/tool_schema.h"

namespace anabranch {

std::map<std::string, std::string, std::less<>> short_names(const Json& tools) {
  constexpr std::string_view kBorder = "__";
  std::map<std::string, std::string, std::less<>> shorts;
  if (!tools.is_array()) return shorts;
  std::set<std::string, std::less<>> whole;
  for (const Json& tool : tools) {
    const auto function = tool.find("function");
    if (function == tool.end()) continue;
    const std::string name = string_at(*function, "name");
    if (name.size() > kMaxNameBytes) continue;  // no call can name it
    whole.insert(name);
    for (size_t at = name.find(kBorder, 1); at != name.npos; at = name.find(kBorder, at + 1)) {
      const std::string part = name.substr(at + kBorder.size());
      if (part.empty() || part.front() == '_') continue;
      const auto [known, fresh] = shorts.emplace(part, name);
      if (!fresh && known->second != name) known->second.clear();
    }
  }
  std::erase_if(shorts, [&](const auto& one) { return one.second.empty() || whole.contains(one.first); });
  return shorts;
}

std::string offered_name(const Json& tools, std::string_view written) {
  constexpr std::string_view kNamespace = "functions.";  // some models write it before any name
  if (has_tool(tools, written)) return std::string(written);
  if (written.starts_with(kNamespace) && has_tool(tools, written.substr(kNamespace.size())))
    return std::string(written.substr(kNamespace.size()));
  const auto shorts = short_names(tools);
  const auto found = shorts.find(written);
  return found == shorts.end() ? std::string(written) : found->second;
}

}  // namespace anabranch
