// Values of the template language, with Python's meaning: truth, equality, order, str() and repr().
//
// Lists, dicts and texts are immutable and shared (Jinja's sandbox forbids changing them), so they form no
// cycles. Only namespaces are mutable: the run owns them, and values point to them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.h"
#include "jinja/limits.h"
#include "jinja/text.h"

namespace anabranch::jinja {

__extension__ typedef __int128 Int;  // holds every 64-bit integer of JSON; overflow is an error

struct List;
struct Dict;
struct Namespace;
struct Function;
struct Loop;

struct Undefined {
  std::shared_ptr<const std::string> why;  // the reason, such as "'x' is undefined"
};
struct None {};

// In the order of the alternatives in Value.
enum class Kind { undefined, none, boolean, integer, real, text, list, dict, name_space, function, loop };

class Value {
 public:
  Value() : v_(Undefined{}) {}
  Value(None) : v_(None{}) {}
  Value(bool v) : v_(v) {}
  Value(Int v) : v_(v) {}
  Value(double v) : v_(v) {}
  Value(Text v) : v_(std::make_shared<const Text>(std::move(v))) {}
  Value(std::shared_ptr<const List> v) : v_(std::move(v)) {}
  Value(std::shared_ptr<const Dict> v) : v_(std::move(v)) {}
  Value(std::shared_ptr<const Function> v) : v_(std::move(v)) {}
  Value(std::shared_ptr<const Loop> v) : v_(std::move(v)) {}
  Value(Namespace* v) : v_(v) {}
  static Value undefined(std::string why) {
    Value v;
    v.v_ = Undefined{std::make_shared<const std::string>(std::move(why))};
    return v;
  }
  static Value of_size(size_t n) { return Value(static_cast<Int>(n)); }

  Kind kind() const { return static_cast<Kind>(v_.index()); }
  bool is(Kind k) const { return kind() == k; }
  // True, False and integers: the values that Python accepts as an int.
  bool integral() const { return is(Kind::integer) || is(Kind::boolean); }
  bool numeric() const { return integral() || is(Kind::real); }

  bool boolean() const { return std::get<bool>(v_); }
  Int integer() const { return is(Kind::boolean) ? Int{boolean()} : std::get<Int>(v_); }
  double real() const { return is(Kind::real) ? std::get<double>(v_) : static_cast<double>(integer()); }
  const Text& text() const { return *std::get<std::shared_ptr<const Text>>(v_); }
  const List& list() const { return *std::get<std::shared_ptr<const List>>(v_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(v_); }
  Namespace& name_space() const { return *std::get<Namespace*>(v_); }
  const Function& function() const { return *std::get<std::shared_ptr<const Function>>(v_); }
  const Loop& loop() const { return *std::get<std::shared_ptr<const Loop>>(v_); }
  std::shared_ptr<const List> shared_list() const { return std::get<std::shared_ptr<const List>>(v_); }
  // The reason why an undefined value is undefined.
  std::string why() const;

 private:
  std::variant<Undefined, None, bool, Int, double, std::shared_ptr<const Text>, std::shared_ptr<const List>,
               std::shared_ptr<const Dict>, Namespace*, std::shared_ptr<const Function>,
               std::shared_ptr<const Loop>>
      v_;
};

struct List {
  std::vector<Value> items;
  bool tuple = false;
  int depth = 1;  // levels of nested containers, including this one
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;     // in the order of insertion
  std::unordered_map<std::string, size_t> index;  // positions in items, by hash_key; empty in small dicts
  int depth = 1;

  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

// The variable `loop` inside {% for %}.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index = 0;
};

class Run;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Function {
  std::string name;
  std::function<Value(Run&, const Arguments&)> call;
};

// Errors: exhausted (nested too deeply); make_dict: invalid (a key that Python cannot hash).
Value make_list(std::vector<Value> items, bool tuple = false);
Value make_dict(std::vector<std::pair<Value, Value>> items);
inline Value untrusted(std::string bytes) {
  return Value(Text(std::move(bytes), false));
}
// All strings of `json` get the given trust; bad UTF-8 is replaced. depth: how deep `json` is nested in its
// document.
Value from_json(const Json& json, bool trusted = false, int depth = 0);

bool truthy(const Value& v);
bool equal(const Value& a, const Value& b, Budget& budget);
// a < b in Python's order; fails on values that have no order.
bool less(const Value& a, const Value& b, Budget& budget);
// str(v) and repr(v). Strings keep their trust; the text of other values is untrusted.
Text to_text(const Value& v, Budget& budget);
Text to_repr(const Value& v, Budget& budget);
// Python's name of the type: "str", "int", "NoneType".
std::string type_name(const Value& v);
std::string format_real(double v);  // in Python's format: 1.0, 1e+16, nan
std::string format_integer(Int v);

// The items that a loop over `v` visits: list items, dict keys, characters; none for undefined. Fails for
// other values.
std::shared_ptr<const List> iterate(const Value& v, Budget& budget);
// A text as a value; charges its size to the budget.
Value text_value(Text text, Budget& budget);

}  // namespace anabranch::jinja
