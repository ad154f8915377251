#include "hub/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include "base/lower_case.h"
#include "base/mapped_file.h"
#include "base/white_space.h"

namespace anabranch::hub {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// A path from an environment variable; "~/" stands for the home directory.
std::string path_variable(const char* name) {
  std::string path = variable(name);
  if (path == "~" || path.starts_with("~/")) path = variable("HOME") + path.substr(1);
  return path;
}

std::string without_slashes(std::string text) {
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

bool is_true(std::string value) {
  value = lower_case(value);
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

// $HF_HOME, $XDG_CACHE_HOME/huggingface or ~/.cache/huggingface; "": none is known.
std::string hf_home() {
  if (auto home = path_variable("HF_HOME"); !home.empty()) return without_slashes(home);
  if (auto cache = path_variable("XDG_CACHE_HOME"); !cache.empty())
    return without_slashes(cache) + "/huggingface";
  if (auto home = variable("HOME"); !home.empty()) return without_slashes(home) + "/.cache/huggingface";
  return "";
}

Result<void> read_token(Settings& settings) {
  constexpr size_t kMaxBytes = 4096;
  settings.token = trimmed(variable("HF_TOKEN"));
  if (settings.token.empty() && !settings.token_path.empty()) {
    const auto text = read_file(settings.token_path, kMaxBytes);
    if (text)
      settings.token = trimmed(*text);
    else if (text.error().kind != ErrorKind::not_found)
      return make_error(text.error().kind, "the token file {} cannot be read: {}", settings.token_path,
                        text.error().message);
  }
  const bool visible = std::ranges::all_of(settings.token, [](char c) { return c > ' ' && c <= '~'; });
  if (!visible)
    return make_error(ErrorKind::invalid,
                      "the token in HF_TOKEN or {} holds characters that no token has: copy it again",
                      settings.token_path);
  return {};
}

}  // namespace

Result<Settings> settings_from_environment() {
  Settings settings;
  if (const std::string endpoint(trimmed(variable("HF_ENDPOINT"))); !endpoint.empty())
    settings.endpoint = without_slashes(endpoint);
  if (!settings.endpoint.starts_with("https://") && !settings.endpoint.starts_with("http://"))
    return make_error(ErrorKind::invalid, "HF_ENDPOINT is '{}': give an address that begins with https://",
                      settings.endpoint);
  const std::string home = hf_home();
  settings.cache = without_slashes(path_variable("HF_HUB_CACHE"));
  if (settings.cache.empty() && home.empty())
    return make_error(ErrorKind::invalid,
                      "no directory for models is known: set HF_HUB_CACHE, HF_HOME or HOME");
  if (settings.cache.empty()) settings.cache = home + "/hub";
  settings.token_path = path_variable("HF_TOKEN_PATH");
  if (settings.token_path.empty() && !home.empty()) settings.token_path = home + "/token";
  settings.ca_file = path_variable("SSL_CERT_FILE");
  settings.offline = is_true(variable("HF_HUB_OFFLINE"));
  if (const std::string text(trimmed(variable("HF_HUB_DOWNLOAD_TIMEOUT"))); !text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), settings.stall_seconds);
    if (error != std::errc() || *end || settings.stall_seconds < 1 || settings.stall_seconds > 86400)
      return make_error(ErrorKind::invalid,
                        "HF_HUB_DOWNLOAD_TIMEOUT is '{}': give whole seconds, from 1 to 86400", text);
  }
  TRY_VOID(read_token(settings));
  return settings;
}

}  // namespace anabranch::hub
