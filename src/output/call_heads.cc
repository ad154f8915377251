#include "output/call_heads.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/white_space.h"
#include "output/tool_call.h"
#include "output/tool_names.h"

namespace anabranch {
namespace {

constexpr char kBlanks = '\0', kId = '\1';  // kId: an id of any length up to a limit
// Without a limit, a model that is kept from the name which it wants may write white space for ever.
constexpr int kMaxBlanks = 8, kMaxId = 64;

bool is_id_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

// Writes a JSON call as far as its name: {"name": "NAME", before it perhaps "type": "function" as in Llama's
// examples.
std::vector<std::string> json_heads(const std::string& name) {
  const std::string named = fmt::format("\"name\"{0}:{0}{1}", kBlanks, dump_json(Json(name)));
  const std::string open = fmt::format("{0}{{{0}", kBlanks);
  return {open + named, fmt::format("{0}\"type\"{1}:{1}\"function\"{1},{1}{2}", open, kBlanks, named)};
}

// The same where the call has an id and other keys (Command R7B).
std::vector<std::string> action_heads(const std::string& name) {
  const std::string open = fmt::format("{0}{{{0}", kBlanks);
  const std::string named = fmt::format("\"tool_name\"{0}:{0}{1}", kBlanks, dump_json(Json(name)));
  return {open + named,
          fmt::format("{0}\"tool_call_id\"{1}:{1}\"{2}\"{1},{1}{3}", open, kBlanks, kId, named)};
}

std::vector<std::string> object_heads(ToolFormat format, const std::string& name) {
  if (format == ToolFormat::actions) return action_heads(name);
  if (format == ToolFormat::named_keys)
    return {fmt::format("{0}{{{0}{1}{0}:", kBlanks, dump_json(Json(name)))};
  return json_heads(name);
}

// All beginnings of a call of `name` behind the opener.
std::vector<std::string> heads_of(const OutputFormat& format, const std::string& name) {
  std::vector<std::string> heads;
  const bool plain_name = name.find_first_of("<>{}[]\"\n") == name.npos;
  switch (format.tools) {
    case ToolFormat::none:
      break;
    case ToolFormat::messages:  // behind the name the header goes on with a mark, or with its type
      if (plain_name && name.find_first_of(kSpace) == name.npos)
        for (const char* prefix : {"functions.", ""})
          for (const char* stop : {" ", "<"}) heads.push_back(fmt::format("{}{}{}", prefix, name, stop));
      break;
    case ToolFormat::tagged:
      heads = json_heads(name);
      if (plain_name) heads.push_back(fmt::format("{}{}{}>", kBlanks, kFunctionOpen, name));
      break;
    case ToolFormat::plain:
    case ToolFormat::tools:
    case ToolFormat::gigachat:
      heads = json_heads(name);
      break;
    case ToolFormat::lines:
      if (plain_name) heads = {fmt::format("{0}{1}(", kBlanks, name), fmt::format("{}<", kBlanks)};
      break;
    case ToolFormat::mistral:
    case ToolFormat::listed:
    case ToolFormat::python:
    case ToolFormat::actions:
    case ToolFormat::calls_tag:
    case ToolFormat::toolcall:
    case ToolFormat::named_keys:
      for (const std::string& head : object_heads(format.tools, name)) {
        heads.push_back(head);
        heads.push_back(fmt::format("{}[{}", kBlanks, head));
      }
      if (plain_name && format.tools == ToolFormat::python)
        for (const char* open : {"", "["}) heads.push_back(fmt::format("{0}{1}{0}{2}(", kBlanks, open, name));
      if (plain_name && format.tools == ToolFormat::mistral)
        for (const char* stop : {"[ARGS]", "[CALL_ID]", "{"})
          heads.push_back(fmt::format("{}{}{}", kBlanks, name, stop));
      break;
    case ToolFormat::gemma4:
    case ToolFormat::function_gemma:
      if (plain_name) heads.push_back(fmt::format("{}call:{}{{", kBlanks, name));
      break;
    case ToolFormat::deepseek:
    case ToolFormat::deepseek_json:
    case ToolFormat::kimi:
    case ToolFormat::solar:
      if (const NameTags& tags = *name_tags(format.tools);
          plain_name && (!tags.numbered || name.find(':') == name.npos))
        for (const std::string_view prefix : {tags.prefix, std::string_view()})
          heads.push_back(fmt::format("{}{}{}{}{}{}", kBlanks, tags.call_open,
                                      tags.id_end.empty() ? "" : kId + std::string(tags.id_end), prefix, name,
                                      tags.numbered ? ":" : tags.name_end));
      break;
    case ToolFormat::minimax:
    case ToolFormat::seed:
    case ToolFormat::hunyuan:
    case ToolFormat::hunyuan_open:
    case ToolFormat::dsml:
    case ToolFormat::dsml_functions:
    case ToolFormat::params:
      if (const PairTags& tags = *pair_tags(format.tools); plain_name)
        heads.push_back(fmt::format("{}{}{}{}", kBlanks, tags.call_open, name, tags.name_end));
      break;
    case ToolFormat::key_tags:
      if (plain_name)
        for (const char* stop : {"\n", "<arg_key>", "</tool_call>"})
          heads.push_back(fmt::format("{}{}{}", kBlanks, name, stop));
      break;
  }
  return heads;
}

}  // namespace

CallHeads::CallHeads(const OutputFormat& format, const Json& tools) {
  if (!tools.is_array()) return;
  const auto add_name = [&](const std::string& name) {
    // These bytes are this file's signs.
    constexpr char kSigns[] = {kBlanks, kId};
    if (name.empty() || name.size() > kMaxNameBytes || name.find_first_of({kSigns, 2}) != name.npos) return;
    for (const std::string& head : heads_of(format, name)) add(head);
  };
  for (const Json& tool : tools)
    if (const auto function = tool.find("function"); function != tool.end())
      add_name(string_at(*function, "name"));
  for (const auto& [part, name] : short_names(tools)) add_name(part);
  if (format.tools != ToolFormat::tagged) return;
  function_ = 0;
  for (const char byte : kFunctionOpen)
    if (function_ >= 0) function_ = child(function_, byte);
}

CallHeads::Position CallHeads::begin(std::string_view opener) const {
  return {opener == kFunctionOpen ? std::max(function_, 0) : 0, 0};
}

void CallHeads::add(std::string_view pattern) {
  int node = 0;
  for (const char byte : pattern) {
    if (byte == kBlanks) {
      nodes_[static_cast<size_t>(node)].blanks = true;
      continue;
    }
    if (byte == kId) {
      nodes_[static_cast<size_t>(node)].id = true;
      continue;
    }
    int to = child(node, byte);
    if (to < 0) {
      to = static_cast<int>(nodes_.size());
      nodes_.emplace_back();
      nodes_[static_cast<size_t>(node)].next.emplace_back(byte, to);
    }
    node = to;
  }
}

int CallHeads::child(int node, char byte) const {
  for (const auto& [label, to] : nodes_[static_cast<size_t>(node)].next)
    if (label == byte) return to;
  return -1;
}

CallHeads::Step CallHeads::read(Position& position, std::string_view bytes) const {
  for (const char byte : bytes) {
    const int to = child(position.node, byte);
    if (to >= 0) {
      position = {to, 0};
      if (nodes_[static_cast<size_t>(to)].next.empty()) return Step::complete;
    } else if (nodes_[static_cast<size_t>(position.node)].blanks && is_space(byte) &&
               position.blanks < kMaxBlanks) {
      position.blanks++;
    } else if (nodes_[static_cast<size_t>(position.node)].id && is_id_byte(byte) &&
               position.blanks < kMaxId) {
      position.blanks++;
    } else {
      return Step::broken;
    }
  }
  return Step::inside;
}

std::string CallHeads::next(const Position& position) const {
  const Node& node = nodes_[static_cast<size_t>(position.node)];
  std::string bytes;
  for (const auto& [label, to] : node.next) bytes += label;
  if (node.blanks && position.blanks < kMaxBlanks)
    for (const char blank : std::string_view(kSpace))
      if (bytes.find(blank) == bytes.npos) bytes += blank;
  if (node.id && position.blanks < kMaxId)
    for (int byte = 0; byte < 128; byte++)
      if (is_id_byte(static_cast<char>(byte))) bytes += static_cast<char>(byte);
  return bytes;
}

}  // namespace anabranch
