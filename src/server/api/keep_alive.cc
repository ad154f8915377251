#include "server/api/keep_alive.h"

#include <charconv>

namespace anabranch::server {
namespace {

// Removes the number at the start of the text and returns it.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

std::optional<double> take_unit(std::string_view& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3},
                                                            {"s", 1},     {"m", 60},    {"h", 3600}};
  for (const auto& [name, seconds] : kUnits)
    if (text.starts_with(name)) {
      text.remove_prefix(name.size());
      return seconds;
    }
  return std::nullopt;
}

// "1h30m"; a number alone means seconds.
std::optional<double> parse_duration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.front() == '-') return std::nullopt;
  double seconds = 0;
  bool first = true;
  while (!text.empty()) {
    const auto number = take_number(text);
    if (!number) return std::nullopt;
    const auto unit = text.empty() && first ? std::optional(1.0) : take_unit(text);
    if (!unit) return std::nullopt;
    seconds += *number * *unit;
    first = false;
  }
  return negative ? -seconds : seconds;
}

}  // namespace

std::optional<double> read_keep_alive(JsonFields& fields) {
  const Json* value = fields.find("keep_alive");
  if (!value) return std::nullopt;
  const auto seconds = value->is_number()   ? std::optional(value->get<double>())
                       : value->is_string() ? parse_duration(value->get_ref<const std::string&>())
                                            : std::nullopt;
  if (!seconds)
    fields.fail("keep_alive", "invalid_value",
                fmt::format("'keep_alive' must be a number of seconds or a duration such as \"5m\", not {}",
                            value->dump()));
  return seconds;
}

}  // namespace anabranch::server
