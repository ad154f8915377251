#include "cli/flag_table.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace anabranch::cli {
namespace {

constexpr const char* kUnits = "B, KB, MB, GB or TB, as in 8GB or 512MB";

// Nothing if the text has another format or the size is too large.
std::optional<uint64_t> parse_size(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number < 0 || text.starts_with('-'))
    return std::nullopt;
  std::string unit(end, text.data() + text.size());
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  for (char& c : unit)
    if (c >= 'a' && c <= 'z') c -= 'a' - 'A';
  if (unit.empty()) return number == 0 ? std::optional<uint64_t>(0) : std::nullopt;
  constexpr std::string_view kPrefixes = "KMGT";
  int power = 0;
  if (unit != "B") {
    const size_t at = kPrefixes.find(unit[0]);
    const std::string rest = unit.substr(1);
    if (at == kPrefixes.npos || (rest != "" && rest != "B" && rest != "IB")) return std::nullopt;
    power = static_cast<int>(at) + 1;
  }
  const double bytes = std::ldexp(number, 10 * power);
  return bytes < std::ldexp(1.0, 63) ? std::optional<uint64_t>(static_cast<uint64_t>(bytes)) : std::nullopt;
}

// Replaces a size by its bytes, or says what is wrong with it.
std::string to_bytes(std::string& text) {
  const auto bytes = parse_size(text);
  if (!bytes) return fmt::format("'{}' is no size: give a number and a unit ({})", text, kUnits);
  text = std::to_string(*bytes);
  return "";
}

std::string refuse_nan(const std::string& text) {
  return std::isnan(std::strtof(text.c_str(), nullptr)) ? "not a number" : "";
}

}  // namespace

Rule required() {
  return [](CLI::Option& option) { option.required(); };
}

Rule within(int low, int high) {
  return [=](CLI::Option& option) { option.check(CLI::Range(low, high)); };
}

Rule within(double low, double high) {
  return [=](CLI::Option& option) { option.check(CLI::Range(low, high) & CLI::Validator(refuse_nan, "")); };
}

Rule one_of(std::vector<std::string> words) {
  return [words = std::move(words)](CLI::Option& option) { option.check(CLI::IsMember(words)); };
}

Rule one_of(std::initializer_list<int> numbers) {
  return [numbers = std::vector(numbers)](CLI::Option& option) { option.check(CLI::IsMember(numbers)); };
}

Rule size() {
  return [](CLI::Option& option) { option.transform(CLI::Validator(to_bytes, "SIZE")); };
}

Rule repeated() {
  return [](CLI::Option& option) { option.expected(1)->allow_extra_args(false)->take_all(); };
}

Rule listed() {
  return [](CLI::Option& option) { option.delimiter(','); };
}

Rule needs(std::string flag) {
  return [flag = std::move(flag)](CLI::Option& option) { option.needs(flag); };
}

Rule excludes(std::string flag) {
  return [flag = std::move(flag)](CLI::Option& option) { option.excludes(flag); };
}

void add_flags(CLI::App& command, const std::vector<FlagGroup>& groups) {
  std::vector<std::pair<CLI::Option*, const Flag*>> added;
  for (const auto& [heading, flags] : groups)
    for (const Flag& flag : flags) {
      added.emplace_back(flag.add(command), &flag);
      if (!heading.empty()) added.back().first->group(heading);
    }
  for (const auto& [option, flag] : added)
    for (const Rule& rule : flag->rules) rule(*option);
}

CLI::App* add_command(CLI::App& app, const char* name, const char* help, std::vector<FlagGroup> groups,
                      std::vector<Flag> own) {
  groups.push_back({"", std::move(own)});
  CLI::App* command = app.add_subcommand(name, help);
  add_flags(*command, groups);
  return command;
}

}  // namespace anabranch::cli
