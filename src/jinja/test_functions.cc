// The tests, which stand after "is".
#include <algorithm>

#include "jinja/library.h"
#include "jinja/ops.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

bool is_sequence(const Value& v) {
  return v.is(Kind::text) || v.is(Kind::list) || v.is(Kind::dict) || v.is(Kind::undefined);
}

template <Kind kind>
bool is_kind(Run&, const Value& v, const Arguments&) {
  return v.is(kind);
}

template <Op op>
bool is_compared(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("the test", arguments, {"other"}, 1);
  return compare(op, v, p[0], run.budget);
}

Int remainder(const Value& v, const Value& divisor, Budget& budget) {
  Value rest = binary(Op::mod, v, divisor, budget);
  if (rest.is(Kind::real)) return rest.real() == 0 ? 0 : rest.real() == 1 ? 1 : 2;
  if (!rest.integral()) fail("the test needs a number, not a {}", type_name(v));
  return rest.integer();
}

bool is_same(Run& run, const Value& v, const Arguments& arguments) {
  Parameters p("sameas", arguments, {"other"}, 1);
  return v.kind() == p[0].kind() && equal(v, p[0], run.budget);
}

// True if there are cased letters and all of them have the wanted case.
template <bool (*wanted)(char32_t), bool (*other)(char32_t)>
bool is_cased(Run& run, const Value& v, const Arguments&) {
  Text text = to_text(v, run.budget);
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    char32_t c = next_code_point(text.bytes(), at);
    if (other(c)) return false;
    any = any || wanted(c);
  }
  return any;
}

struct Entry {
  std::string_view name;
  Test test;
};

constexpr Entry kTests[] = {
    {"defined", [](Run&, const Value& v, const Arguments&) { return !v.is(Kind::undefined); }},
    {"undefined", is_kind<Kind::undefined>},
    {"none", is_kind<Kind::none>},
    {"boolean", is_kind<Kind::boolean>},
    {"integer", is_kind<Kind::integer>},
    {"float", is_kind<Kind::real>},
    {"number", [](Run&, const Value& v, const Arguments&) { return v.numeric(); }},
    {"string", is_kind<Kind::text>},
    {"mapping", is_kind<Kind::dict>},
    {"sequence", [](Run&, const Value& v, const Arguments&) { return is_sequence(v); }},
    {"iterable", [](Run&, const Value& v, const Arguments&) { return is_sequence(v); }},
    {"callable", is_kind<Kind::function>},
    {"true", [](Run&, const Value& v, const Arguments&) { return v.is(Kind::boolean) && v.boolean(); }},
    {"false", [](Run&, const Value& v, const Arguments&) { return v.is(Kind::boolean) && !v.boolean(); }},
    {"sameas", is_same},
    {"odd", [](Run& run, const Value& v, const Arguments&) { return remainder(v, Int{2}, run.budget) == 1; }},
    {"even",
     [](Run& run, const Value& v, const Arguments&) { return remainder(v, Int{2}, run.budget) == 0; }},
    {"divisibleby",
     [](Run& run, const Value& v, const Arguments& arguments) {
       Parameters p("divisibleby", arguments, {"num"}, 1);
       return remainder(v, p[0], run.budget) == 0;
     }},
    {"lower", is_cased<is_lower, is_upper>},
    {"upper", is_cased<is_upper, is_lower>},
    {"in",
     [](Run& run, const Value& v, const Arguments& arguments) {
       Parameters p("in", arguments, {"seq"}, 1);
       return contains(p[0], v, run.budget);
     }},
    {"eq", is_compared<Op::eq>},
    {"equalto", is_compared<Op::eq>},
    {"==", is_compared<Op::eq>},
    {"ne", is_compared<Op::ne>},
    {"!=", is_compared<Op::ne>},
    {"lt", is_compared<Op::lt>},
    {"lessthan", is_compared<Op::lt>},
    {"<", is_compared<Op::lt>},
    {"le", is_compared<Op::le>},
    {"<=", is_compared<Op::le>},
    {"gt", is_compared<Op::gt>},
    {"greaterthan", is_compared<Op::gt>},
    {">", is_compared<Op::gt>},
    {"ge", is_compared<Op::ge>},
    {">=", is_compared<Op::ge>},
};

}  // namespace

Test find_test(std::string_view name) {
  for (const Entry& entry : kTests)
    if (entry.name == name) return entry.test;
  return nullptr;
}

}  // namespace anabranch::jinja
