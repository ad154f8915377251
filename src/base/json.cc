#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/json_text.h"

namespace anabranch {
namespace {

// Builds the value from parser events, so that a limit stops the parse before its cost is paid. Objects are
// filled through an index of their keys: ordered_json's own insertion is linear in the number of existing
// keys.
class Builder {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return add(nullptr); }
  bool boolean(bool v) { return add(v); }
  bool number_integer(Json::number_integer_t v) { return add(v); }
  bool number_unsigned(Json::number_unsigned_t v) { return add(v); }
  bool number_float(Json::number_float_t v, const std::string&) { return add(v); }
  bool string(std::string& v) { return add(std::move(v)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    Frame& frame = stack_.back();
    auto& object = frame.value.get_ref<Json::object_t&>();
    auto [it, added] = frame.index.emplace(name, object.size());
    frame.slot = it->second;
    if (!added) return true;  // a repeated key: the last value wins, as in most parsers
    if (object.size() >= limits_.keys_per_object)
      return stop(
          make_error(ErrorKind::exhausted, "JSON: an object has more than {} keys", limits_.keys_per_object));
    object.emplace_back(name, nullptr);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& e) {
    // The parser's own text also quotes the last token, which may be the whole input.
    std::string what = e.what();
    size_t from = what.rfind("] ", 64);
    if (from != std::string::npos) what.erase(0, from + 2);
    size_t colon = what.find("column ");
    colon = colon == std::string::npos ? colon : what.find(": ", colon);
    if (colon != std::string::npos) what.erase(0, colon + 2);
    what.resize(std::min(what.size(), what.find("; last read")));
    if (what.size() > 200) what.resize(200);
    return stop(
        make_error(ErrorKind::invalid, "JSON: {} at byte {}", what, position == 0 ? 0 : position - 1));
  }

  const Error& error() const { return error_; }
  Json take() { return std::move(root_); }

 private:
  struct Frame {
    Json value;
    size_t slot = 0;                                // the object's slot for the next value
    std::unordered_map<std::string, size_t> index;  // key -> slot
  };

  bool stop(Error error) {
    error_ = std::move(error);
    return false;
  }

  bool count() {
    if (++values_ > limits_.values)
      return stop(make_error(ErrorKind::exhausted, "JSON: more than {} values", limits_.values));
    return true;
  }

  bool open(Json value) {
    if (static_cast<int>(stack_.size()) >= limits_.depth)
      return stop(make_error(ErrorKind::exhausted, "JSON: nested deeper than {} levels", limits_.depth));
    if (!count()) return false;
    stack_.emplace_back();
    stack_.back().value = std::move(value);
    return true;
  }

  bool close() {
    Json value = std::move(stack_.back().value);
    stack_.pop_back();
    place(std::move(value));
    return true;
  }

  template <class T>
  bool add(T&& value) {
    if (!count()) return false;
    place(Json(std::forward<T>(value)));
    return true;
  }

  void place(Json value) {
    if (stack_.empty()) {
      root_ = std::move(value);
    } else if (stack_.back().value.is_array()) {
      stack_.back().value.get_ref<Json::array_t&>().push_back(std::move(value));
    } else {
      (stack_.back().value.get_ref<Json::object_t&>().begin() + stack_.back().slot)->second =
          std::move(value);
    }
  }

  const JsonLimits& limits_;
  std::vector<Frame> stack_;
  Json root_;
  size_t values_ = 0;
  Error error_{ErrorKind::invalid, "JSON: no value"};
};

// Replaces escapes of half a surrogate pair by \ufffd, which is as long. JavaScript clients cut texts within
// a character. Nothing: there are no such escapes.
std::optional<std::string> whole_characters(std::string_view text) {
  std::optional<std::string> changed;
  for (size_t at = text.find('\\'); at < text.size(); at = text.find('\\', at)) {
    const auto unit = escaped_unit(text.substr(at));
    const bool first = unit && is_first_surrogate(*unit);
    const auto second = first ? escaped_unit(text.substr(at + kEscapeBytes)) : std::nullopt;
    const bool pair = second && is_second_surrogate(*second);
    if (!pair && (first || (unit && is_second_surrogate(*unit)))) {
      if (!changed) changed = std::string(text);
      changed->replace(at, kEscapeBytes, "\\ufffd");
    }
    at += pair ? 2 * kEscapeBytes : unit ? kEscapeBytes : 2;
  }
  return changed;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    return make_error(ErrorKind::exhausted, "JSON: {} bytes, more than the limit of {}", text.size(),
                      limits.bytes);
  // nlohmann treats a zero byte as the end of the input and would ignore the rest.
  if (const void* zero = text.empty() ? nullptr : std::memchr(text.data(), 0, text.size()))
    return make_error(ErrorKind::invalid, "JSON: a zero byte at byte {}",
                      static_cast<const char*>(zero) - text.data());
  const auto changed = whole_characters(text);
  if (changed) text = *changed;
  Builder builder(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return builder.error();
  return builder.take();
}

std::string dump_json(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

double shortest(float value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double out = 0;
  std::from_chars(text, end, out);
  return out;
}

std::string string_at(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

}  // namespace anabranch
