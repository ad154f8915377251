#include "cli/chat_settings.h"

#include <fmt/core.h>

#include <charconv>
#include <type_traits>

#include "cli/sampler_fields.h"

namespace anabranch::cli {
namespace {

// Calls see(name, least, most, value) for each setting. An unset value is the default.
template <class Function>
void for_settings(SamplingOptions& o, const Function& see) {
  for_sampler_fields([&](const auto& field) { see(field.name, field.least, field.most, o.*field.given); });
  see("seed", 0, 9007199254740992.0, o.seed);
  std::optional<int> most = o.max_tokens;
  see("max_tokens", -1, 1 << 27, most);
  o.max_tokens = most.value_or(-1);
}

template <class T>
Result<void> change(std::optional<T>& value, double least, double most, const std::string& name,
                    const std::string& text) {
  if (text == "default") return value = std::nullopt, Result<void>();
  constexpr bool kWhole = std::is_integral_v<T>;
  double number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || !(number >= least && number <= most) ||
      (kWhole && number != static_cast<double>(static_cast<int64_t>(number))))
    return make_error(ErrorKind::invalid, "{} is a {} from {} to {}, or default", name,
                      kWhole ? "whole number" : "number", least, most);
  return value = static_cast<T>(number), Result<void>();
}

}  // namespace

Result<void> change_setting(SamplingOptions& options, const std::string& name, const std::string& text) {
  std::string names;
  std::optional<Result<void>> changed;
  for_settings(options, [&](const char* known, double least, double most, auto& value) {
    names += (names.empty() ? "" : ", ") + std::string(known);
    if (name == known) changed = change(value, least, most, name, text);
  });
  if (changed) return *changed;
  return make_error(ErrorKind::not_found, "there is no setting of this name: {}", names);
}

std::string list_settings(SamplingOptions options) {
  std::string out;
  for_settings(options, [&](const char* name, double, double, const auto& value) {
    out += fmt::format("{:<20} {}\n", name, value ? fmt::format("{}", *value) : "default");
  });
  return out;
}

}  // namespace anabranch::cli
