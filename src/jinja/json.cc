#include "jinja/json.h"

#include <algorithm>
#include <cmath>

#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

class Writer {
 public:
  Writer(const JsonStyle& style, Budget& budget) : style_(style), budget_(budget) {}

  void write(const Value& v, int level) {
    budget_.spend(1);
    switch (v.kind()) {
      case Kind::none:
        return put("null");
      case Kind::boolean:
        return put(v.boolean() ? "true" : "false");
      case Kind::integer:
        return put(format_integer(v.integer()));
      case Kind::real:
        return put(real(v.real()));
      case Kind::text:
        return write_string(v.text().bytes());
      case Kind::list:
        return write_list(v.list(), level);
      case Kind::dict:
        return write_dict(v.dict(), level);
      case Kind::undefined:
        fail("{}, so it cannot be printed as JSON", v.why());
      default:
        fail("Object of type {} is not JSON serializable", type_name(v));
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void put(std::string_view s) {
    budget_.spend(s.size() / 64);
    if (out_.size() + s.size() > kMaxTextBytes) fail_limit("a text of more than {} bytes", kMaxTextBytes);
    out_ += s;
  }

  static std::string real(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    return format_real(d);
  }

  void write_escaped(char32_t c) {
    static constexpr std::string_view kNamed = "\"\\\n\r\t\f\b", kNames = "\"\\nrtfb";
    size_t named = c < 0x80 ? kNamed.find(static_cast<char>(c)) : std::string_view::npos;
    uint32_t code = static_cast<uint32_t>(c);
    if (named != std::string_view::npos)
      put(std::string{'\\', kNames[named]});
    else if (code < 0x10000)
      put(fmt::format("\\u{:04x}", code));
    else
      put(fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                      0xDC00 + ((code - 0x10000) & 0x3FF)));
  }

  void write_string(const std::string& s) {
    put("\"");
    size_t plain = 0;  // start of the characters since the last escape
    for (size_t at = 0; at < s.size();) {
      size_t begin = at;
      char32_t c = next_code_point(s, at);
      bool escape = c < 0x20 || c == '"' || c == '\\' || (style_.ensure_ascii && c > 0x7E);
      if (!escape) continue;
      put(std::string_view(s).substr(plain, begin - plain));
      write_escaped(c);
      plain = at;
    }
    put(std::string_view(s).substr(plain));
    put("\"");
  }

  void new_line(int level) {
    if (!style_.pretty) return;
    put("\n");
    for (int i = 0; i < level; ++i) put(style_.indent);
  }

  void write_list(const List& list, int level) {
    if (list.items.empty()) return put("[]");
    put("[");
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i) put(style_.item_separator);
      new_line(level + 1);
      write(list.items[i], level + 1);
    }
    new_line(level);
    put("]");
  }

  void write_key(const Value& key) {
    switch (key.kind()) {
      case Kind::text:
        return write_string(key.text().bytes());
      case Kind::none:
        return put("\"null\"");
      case Kind::boolean:
        return put(key.boolean() ? "\"true\"" : "\"false\"");
      case Kind::integer:
        return put('"' + format_integer(key.integer()) + '"');
      default:
        return put('"' + real(key.real()) + '"');
    }
  }

  void write_dict(const Dict& dict, int level) {
    if (dict.items.empty()) return put("{}");
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys)
      std::stable_sort(items.begin(), items.end(),
                       [&](const auto* a, const auto* b) { return less(a->first, b->first, budget_); });
    put("{");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) put(style_.item_separator);
      new_line(level + 1);
      write_key(items[i]->first);
      put(style_.key_separator);
      write(items[i]->second, level + 1);
    }
    new_line(level);
    put("}");
  }

  const JsonStyle& style_;
  Budget& budget_;
  std::string out_;
};

}  // namespace

std::string to_json(const Value& v, const JsonStyle& style, Budget& budget) {
  Writer writer(style, budget);
  writer.write(v, 0);
  return writer.take();
}

}  // namespace anabranch::jinja
