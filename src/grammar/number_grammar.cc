#include "grammar/number_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace anabranch {
namespace {

constexpr int kMostDigits = 18, kDoubleDigits = 15;
constexpr int64_t kMostInteger = 999'999'999'999'999'999;

std::string joined(const std::vector<std::string>& alternatives) {
  if (alternatives.empty()) return "";
  std::string out = "(";
  for (size_t i = 0; i < alternatives.size(); i++) out += (i == 0 ? "" : "|") + alternatives[i];
  return out + ")";
}

std::string digit(char from, char to) {
  return from == to ? std::string(1, from) : fmt::format("[{}-{}]", from, to);
}

std::string digits(size_t count) {
  return count == 0 ? "" : fmt::format("[0-9]{{{}}}", count);
}

// The digit strings from `low` to `high`, which have the same length.
std::string same_length(const std::string& low, const std::string& high) {
  if (low.empty()) return "";
  const std::string low_rest = low.substr(1), high_rest = high.substr(1);
  if (low[0] == high[0]) return low[0] + same_length(low_rest, high_rest);
  const size_t n = low_rest.size();
  std::vector<std::string> out;
  char from = low[0], to = high[0];
  if (low_rest.find_first_not_of('0') != std::string::npos)
    out.push_back(from++ + same_length(low_rest, std::string(n, '9')));
  std::string last;
  if (high_rest.find_first_not_of('9') != std::string::npos)
    last = to-- + same_length(std::string(n, '0'), high_rest);
  if (from <= to) out.push_back(digit(from, to) + digits(n));
  if (!last.empty()) out.push_back(last);
  return joined(out);
}

// The integers from low >= 0 to high, without a sign; "" if there are none.
std::string unsigned_range(int64_t low, int64_t high) {
  std::vector<std::string> out;
  for (int64_t first = 0, last = 9; low <= high && first <= high; first = last + 1, last = last * 10 + 9) {
    if (last >= low)
      out.push_back(same_length(std::to_string(std::max(first, low)), std::to_string(std::min(last, high))));
    if (last >= kMostInteger) break;
  }
  return joined(out);
}

// The digits after a decimal point: at least one and at most `places`. A bound is given by its own digits
// after the point, without trailing zeros. Each function returns an expression for the digits from place i
// on.
class Fractions {
 public:
  explicit Fractions(int places) : places_(places) {}

  // Fractions of at least `low`; if `above`, of more than that.
  std::string from(const std::string& low, size_t i, bool above) const {
    if (i >= low.size()) return above ? some_not_zero(i) : any(i, "[0-9]");
    std::vector<std::string> out = {low[i] + from(low, i + 1, above)};
    if (low[i] < '9') out.push_back(digit(low[i] + 1, '9') + any(i + 1, "[0-9]"));
    return joined(out);
  }
  // Fractions of at most `high`; if `below`, of less than that. nullopt: there are none.
  std::optional<std::string> to(const std::string& high, size_t i, bool below) const {
    if (i >= high.size()) return below ? std::nullopt : std::optional(any(i, "0"));
    std::vector<std::string> out;
    if (i > 0) out.push_back("");  // a prefix of `high` is less than `high`
    if (const auto rest = to(high, i + 1, below)) out.push_back(high[i] + *rest);
    if (high[i] > '0') out.push_back(digit('0', high[i] - 1) + any(i + 1, "[0-9]"));
    return out.empty() ? std::nullopt : std::optional(joined(out));
  }
  // Fractions between the two; requires low < high.
  std::string between(const std::string& low, const std::string& high, size_t i, bool above,
                      bool below) const {
    const char a = i < low.size() ? low[i] : '0', b = i < high.size() ? high[i] : '0';
    std::vector<std::string> out;
    if (i > 0 && i >= low.size() && !above) out.push_back("");  // `low` itself
    if (a == b) {
      out.push_back(a + between(low, high, i + 1, above, below));
      return joined(out);
    }
    out.push_back(a + from(low, i + 1, above));
    if (a + 1 < b) out.push_back(digit(a + 1, b - 1) + any(i + 1, "[0-9]"));
    if (const auto rest = to(high, i + 1, below)) out.push_back(b + *rest);
    return joined(out);
  }

 private:
  std::string any(size_t i, const char* what) const {
    return fmt::format("{}{{{},{}}}", what, i == 0 ? 1 : 0, places_ - static_cast<int>(i));
  }
  std::string some_not_zero(size_t i) const {
    std::vector<std::string> out;
    for (size_t zeros = 0; static_cast<int>(i + zeros) < places_; zeros++)
      out.push_back(std::string(zeros, '0') + "[1-9]" + any(i + zeros + 1, "[0-9]"));
    return joined(out);
  }

  int places_;
};

// A bound, at least 0, in decimal digits.
struct Decimal {
  int64_t whole = 0;
  std::string fraction;  // without trailing zeros
};

std::optional<Decimal> decimal(double value) {
  if (!(value < 1e15)) return std::nullopt;
  // The shortest digits that are read as this double; the schema most likely has these.
  std::string text = fmt::format("{}", value);
  if (text.find('e') != std::string::npos) text = fmt::format("{:.15f}", value);
  Decimal out;
  const size_t point = text.find('.');
  out.whole = std::stoll(text.substr(0, point));
  if (point != std::string::npos) out.fraction = text.substr(point + 1);
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  if (std::stod(text) != value) return std::nullopt;
  return out;
}

// The decimals from `low` to `high` (nullopt: no limit), without a sign. "" if there are none; nullopt if a
// bound has too many digits.
std::optional<std::string> unsigned_decimals(double low, std::optional<double> high, bool above, bool below) {
  if (high && (*high < low || (*high == low && (above || below)))) return "";
  const auto from = decimal(low);
  const auto to = high ? decimal(*high) : Decimal{kMostInteger / 1000, ""};
  if (!from || !to) return std::nullopt;
  const int whole_digits = static_cast<int>(std::to_string(high ? to->whole : from->whole).size());
  const int needed = static_cast<int>(std::max(from->fraction.size(), to->fraction.size()));
  const int places = std::min(kDoubleDigits - whole_digits, needed + 6);
  if (places < needed + 1) return std::nullopt;
  const Fractions fractions(places);
  const std::string any = fmt::format("(\\.[0-9]{{1,{}}})?", places);
  // The whole part followed by "." and `digits`; if `alone`, the whole part may also stand without a
  // fraction.
  const auto behind = [&](int64_t whole, const std::string& digits, bool alone) {
    return fmt::format("{}({}\\.{})", whole, alone ? "|" : "", digits);
  };
  std::vector<std::string> out;
  if (from->whole == to->whole && high) {
    if (*high == low)
      return behind(from->whole, fmt::format("{}0{{{},6}}", from->fraction, from->fraction.empty() ? 1 : 0),
                    from->fraction.empty());
    const bool alone = from->fraction.empty() && !above;
    out.push_back(behind(
        from->whole, "(" + fractions.between(from->fraction, to->fraction, 0, above, below) + ")", alone));
  } else {
    const bool alone = from->fraction.empty() && !above;
    out.push_back(behind(from->whole, fractions.from(from->fraction, 0, above), alone));
    if (const std::string between = unsigned_range(from->whole + 1, to->whole - 1); !between.empty())
      out.push_back(between + any);
    const auto rest = fractions.to(to->fraction, 0, below);
    if (rest && high) out.push_back(behind(to->whole, *rest, true));
  }
  return joined(out);
}

}  // namespace

std::string integer_regex(const IntegerBounds& bounds) {
  const int64_t least = std::clamp(bounds.least.value_or(-kMostInteger), -kMostInteger, kMostInteger + 1);
  const int64_t most = std::clamp(bounds.most.value_or(kMostInteger), -kMostInteger - 1, kMostInteger);
  if (!bounds.least && !bounds.most) return fmt::format("-?(0|[1-9][0-9]{{0,{}}})", kMostDigits - 1);
  std::vector<std::string> out;
  if (const auto text = unsigned_range(std::max<int64_t>(least, 0), most); !text.empty()) out.push_back(text);
  if (least < 0)
    if (const auto text = unsigned_range(std::max<int64_t>(-most, 1), -least); !text.empty())
      out.push_back("-" + text);
  return joined(out);
}

Result<std::string> number_regex(const NumberBounds& bounds) {
  if (!bounds.least && !bounds.most)
    return fmt::format("-?(0|[1-9][0-9]{{0,{}}})(\\.[0-9]{{1,{}}})?([eE][+-]?[0-9]{{1,2}})?", kMostDigits - 1,
                       kDoubleDigits);
  const double least = bounds.least.value_or(-INFINITY), most = bounds.most.value_or(INFINITY);
  const auto limit = [](double value) { return std::isinf(value) ? std::nullopt : std::optional(value); };
  std::vector<std::string> out;
  if (most >= 0) {
    const bool at_zero = least < 0;
    const auto text =
        unsigned_decimals(at_zero ? 0 : least, limit(most), !at_zero && bounds.above, bounds.below);
    if (!text) return make_error(ErrorKind::unsupported, "bounds with this many digits are not supported");
    if (!text->empty()) out.push_back(*text);
  }
  if (least < 0) {
    const bool to_zero = most > 0;
    const auto text =
        unsigned_decimals(to_zero ? 0 : -most, limit(-least), to_zero || bounds.below, bounds.above);
    if (!text) return make_error(ErrorKind::unsupported, "bounds with this many digits are not supported");
    if (!text->empty()) out.push_back("-" + *text);
  }
  if (out.empty()) return make_error(ErrorKind::unsupported, "no number lies between the bounds");
  return joined(out);
}

// A state knows the digits that were read, modulo the digits of the step, and how many of them are behind the
// point.
Result<Automaton> multiples_of(double step, WorkBudget& work) {
  constexpr int64_t kMostDivisor = 1000;
  constexpr size_t kMostPlaces = 9;
  const auto digits = decimal(step);
  if (!digits || digits->fraction.size() > kMostPlaces || digits->whole > kMostDivisor) return Automaton();
  const int64_t divisor = std::stoll(std::to_string(digits->whole) + digits->fraction);
  if (divisor < 1 || divisor > kMostDivisor) return Automaton();
  const size_t places = digits->fraction.size(), all = static_cast<size_t>(divisor);
  constexpr size_t kFirst = 2;  // behind the beginning, and the beginning with a sign
  Automaton out;
  out.states.resize(kFirst + (places + 2) * all);
  if (!work.spend(30 * 10 * out.states.size())) return make_error(ErrorKind::exhausted, "too much work");
  // `read`: 0 before the point, 1 right behind it, then one more for each digit.
  const auto number_of = [&](size_t read, int64_t rest) {
    return static_cast<int>(kFirst + read * all + static_cast<size_t>(rest));
  };
  const auto add_digits = [&](size_t from, size_t read, int64_t rest) {
    for (char32_t c = '0'; c <= '9'; c++)
      out.states[from].edges.push_back({{{c, c}}, number_of(read, (rest * 10 + c - '0') % divisor)});
  };
  add_digits(0, 0, 0);
  out.states[0].edges.push_back({{{'-', '-'}}, 1});
  add_digits(1, 0, 0);
  for (size_t read = 0; read < places + 2; read++)
    for (int64_t rest = 0; rest < divisor; rest++) {
      const auto at = static_cast<size_t>(number_of(read, rest));
      int64_t whole = rest;  // with zeros for the places that are not written
      for (size_t i = read == 0 ? 0 : read - 1; i < places; i++) whole = whole * 10 % divisor;
      out.states[at].accepts = read != 1 && whole == 0;
      if (read == 0) add_digits(at, 0, rest);
      if (read == 0 && places > 0) out.states[at].edges.push_back({{{'.', '.'}}, number_of(1, rest)});
      if (read > 0 && read <= places) add_digits(at, read + 1, rest);
    }
  return out;
}

}  // namespace anabranch
