#include "cli/chat_settings.h"

#include <fmt/core.h>

#include <charconv>
#include <functional>
#include <type_traits>
#include <vector>

#include "server/api/sampler_fields.h"

namespace anabranch::cli {
namespace {

// Converts a value to text and back. Ranges are those of the flags.
struct ChatSetting {
  const char* name;
  double least, most;
  bool whole;
  std::function<std::string(const SamplingOptions&)> get;
  std::function<void(SamplingOptions&, std::optional<double>)> set;
};

template <class T>
ChatSetting optional_setting(const char* name, double least, double most,
                             std::optional<T> SamplingOptions::*field) {
  return {name,
          least,
          most,
          std::is_integral_v<T>,
          [field](const SamplingOptions& o) {
            return o.*field ? fmt::format("{}", *(o.*field)) : std::string("default");
          },
          [field](SamplingOptions& o, std::optional<double> value) {
            o.*field = value ? std::optional<T>(static_cast<T>(*value)) : std::nullopt;
          }};
}

ChatSetting other_setting(const server::SamplerField& field) {
  return {field.name,
          field.least,
          field.most,
          field.whole(),
          [name = field.name](const SamplingOptions& o) {
            const auto it = o.others.find(name);
            return it == o.others.end() || !it->second ? std::string("default")
                                                       : fmt::format("{}", *it->second);
          },
          [name = field.name](SamplingOptions& o, std::optional<double> value) { o.others[name] = value; }};
}

std::vector<ChatSetting> all_settings() {
  using O = SamplingOptions;
  std::vector<ChatSetting> all = {
      optional_setting("temperature", 0, 100, &O::temperature),
      optional_setting("top_p", 0, 1, &O::top_p),
      optional_setting("top_k", 0, 1 << 20, &O::top_k),
      optional_setting("min_p", 0, 1, &O::min_p),
      optional_setting("repetition_penalty", 0.01, 100, &O::repetition_penalty),
      optional_setting("presence_penalty", -2, 2, &O::presence_penalty),
      optional_setting("frequency_penalty", -2, 2, &O::frequency_penalty),
      {"min_tokens", 0, 1 << 27, true, [](const O& o) { return std::to_string(o.min_tokens); },
       [](O& o, std::optional<double> value) { o.min_tokens = static_cast<int>(value.value_or(0)); }},
      optional_setting("seed", 0, 9007199254740992.0, &O::seed),
      {"max_tokens", -1, 1 << 27, true, [](const O& o) { return std::to_string(o.max_tokens); },
       [](O& o, std::optional<double> value) { o.max_tokens = static_cast<int>(value.value_or(-1)); }}};
  for (const server::SamplerField& field : server::sampler_fields())
    if (field.help) all.push_back(other_setting(field));
  return all;
}

const std::vector<ChatSetting>& settings() {
  static const std::vector<ChatSetting> all = all_settings();
  return all;
}

std::string names() {
  std::string out;
  for (const ChatSetting& one : settings()) out += (out.empty() ? "" : ", ") + std::string(one.name);
  return out;
}

}  // namespace

Result<void> change_setting(SamplingOptions& options, const std::string& name, const std::string& value) {
  for (const ChatSetting& one : settings()) {
    if (one.name != name) continue;
    if (value == "default") return one.set(options, std::nullopt), Result<void>();
    double number = 0;
    const char* end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, number);
    const bool good = read.ec == std::errc() && read.ptr == end && number >= one.least &&
                      number <= one.most &&
                      (!one.whole || number == static_cast<double>(static_cast<int64_t>(number)));
    if (!good)
      return make_error(ErrorKind::invalid, "{} is a {} from {} to {}, or default", name,
                        one.whole ? "whole number" : "number", one.least, one.most);
    return one.set(options, number), Result<void>();
  }
  return make_error(ErrorKind::not_found, "there is no setting of this name: {}", names());
}

std::string list_settings(const SamplingOptions& options) {
  std::string out;
  for (const ChatSetting& one : settings()) out += fmt::format("{:<20} {}\n", one.name, one.get(options));
  return out;
}

}  // namespace anabranch::cli
