#include "mcp/content.h"

#include "mcp/text.h"

namespace anabranch::mcp {
namespace {

constexpr size_t kMaxLabelBytes = 200;

std::string label(const Json& object, const char* key) {
  const std::string text = string_at(object, key);
  return text.empty() ? "unknown" : one_line(text, kMaxLabelBytes);
}

// A placeholder for base64 data, so that the model learns that it exists.
std::string binary(const char* kind, const Json& block, const char* key) {
  return fmt::format("[{}: {}, {} bytes, not shown]", kind, label(block, "mimeType"),
                     string_at(block, key).size() / 4 * 3);
}

std::string resource_text(const Json& resource) {
  const auto text = resource.find("text");
  if (text != resource.end() && text->is_string()) return text->get<std::string>();
  return binary("resource", resource, "blob");
}

std::string block_text(const Json& block) {
  const std::string type = string_at(block, "type");
  if (type == "text") return string_at(block, "text");
  if (type == "image" || type == "audio") return binary(type.c_str(), block, "data");
  if (type == "resource" && block.contains("resource") && block["resource"].is_object())
    return fmt::format("[resource {}]\n{}", label(block["resource"], "uri"),
                       resource_text(block["resource"]));
  if (type == "resource_link")
    return fmt::format("[resource {}: {}]", label(block, "uri"), label(block, "name"));
  return fmt::format("[content of type '{}', not shown]", one_line(type, kMaxLabelBytes));
}

// Joins texts, one per line, up to a limit of bytes.
class Joiner {
 public:
  explicit Joiner(size_t most) : most_(most) {}
  void add(const std::string& text) {
    if (!out_.text.empty() && !out_.text.ends_with('\n')) out_.text += '\n';
    out_.text += text;
    if (out_.text.size() <= most_) return;
    out_.text = std::string(beginning(out_.text, most_));
    out_.truncated = true;
  }
  bool full() const { return out_.truncated; }
  Output take() {
    if (out_.truncated) out_.text += fmt::format("\n[cut here: the output has more than {} bytes]", most_);
    return std::move(out_);
  }

 private:
  const size_t most_;
  Output out_;
};

}  // namespace

Output read_content(const Json& blocks, size_t most_bytes) {
  Joiner joiner(most_bytes);
  for (const Json& block : blocks)
    if (block.is_object() && !joiner.full()) joiner.add(block_text(block));
  return joiner.take();
}

Output read_contents(const Json& contents, size_t most_bytes) {
  Joiner joiner(most_bytes);
  for (const Json& one : contents)
    if (one.is_object() && !joiner.full()) joiner.add(resource_text(one));
  return joiner.take();
}

Output read_call_result(const Json& result, size_t most_bytes) {
  const auto blocks = result.find("content");
  Output out;
  if (blocks != result.end() && blocks->is_array()) out = read_content(*blocks, most_bytes);
  const auto structured = result.find("structuredContent");
  if (out.text.empty() && structured != result.end() && structured->is_object()) {
    Joiner joiner(most_bytes);
    joiner.add(dump_json(*structured));
    out = joiner.take();
  }
  const auto failed = result.find("isError");
  out.is_error = failed != result.end() && *failed == true;
  return out;
}

}  // namespace anabranch::mcp
