#include "mcp/toolbox.h"

#include <algorithm>

namespace anabranch::mcp {
namespace {

constexpr size_t kMaxFunctionName = 64;

std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool good = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    out += good ? c : '_';
  }
  return out;
}

// 32-bit FNV-1a: distinguishes names that become equal when they are cut or cleaned.
std::string short_hash(const std::string& text) {
  uint32_t hash = 2166136261u;
  for (const unsigned char c : text) hash = (hash ^ c) * 16777619u;
  return fmt::format("{:08x}", hash);
}

bool same(const Tool& a, const Tool& b) {
  return a.server == b.server && a.name == b.name;
}

}  // namespace

void Toolbox::add(const Tool& tool) {
  for (Entry& entry : tools_)
    if (same(entry.tool, tool)) {
      entry.tool = tool;
      return;
    }
  const auto taken = [&](const std::string& wanted) {
    return std::any_of(tools_.begin(), tools_.end(),
                       [&](const Entry& entry) { return entry.name == wanted; });
  };
  std::string name = plain(tool.server) + "__" + plain(tool.name);
  std::string whole = tool.server + '\0' + tool.name;
  while (name.size() > kMaxFunctionName || taken(name)) {
    const std::string hash = "_" + short_hash(whole);
    name = name.substr(0, kMaxFunctionName - hash.size()) + hash;
    whole += '+';
  }
  tools_.push_back({std::move(name), tool});
}

Json Toolbox::functions() const {
  Json out = Json::array();
  for (const Entry& entry : tools_) {
    Json function = {
        {"name", entry.name},
        {"description", entry.tool.description.empty() ? entry.tool.title : entry.tool.description},
        {"parameters", entry.tool.input_schema}};
    out.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

std::string Toolbox::names() const {
  constexpr size_t kMost = 100;
  std::string out;
  for (size_t i = 0; i < std::min(tools_.size(), kMost); i++) out += (i > 0 ? ", " : "") + tools_[i].name;
  return out;
}

const Tool* Toolbox::find(std::string_view function_name) const {
  for (const Entry& entry : tools_)
    if (entry.name == function_name) return &entry.tool;
  const Tool* found = nullptr;
  for (const Entry& entry : tools_)
    if (entry.tool.name == function_name) {
      if (found) return nullptr;
      found = &entry.tool;
    }
  return found;
}

std::vector<Tool> Toolbox::tools() const {
  std::vector<Tool> out;
  for (const Entry& entry : tools_) out.push_back(entry.tool);
  return out;
}

std::string Toolbox::name_of(const Tool& tool) const {
  for (const Entry& entry : tools_)
    if (same(entry.tool, tool)) return entry.name;
  return {};
}

std::string text_for_model(bool is_error, const std::string& text) {
  if (is_error) return "Error: " + (text.empty() ? "the tool failed without a message" : text);
  return text.empty() ? "(no output)" : text;
}

}  // namespace anabranch::mcp
