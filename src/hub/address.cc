#include "hub/address.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/lower_case.h"
#include "hub/model_name.h"
#include "hub/short_names.h"

namespace anabranch::hub {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::string_view kSchemes[] = {"https://", "http://"};
constexpr std::string_view kHubs[] = {"hf.co/",         "huggingface.co/", "www.huggingface.co/",
                                      "hf-mirror.com/", "hf://",           "huggingface://"};
constexpr std::string_view kOllama[] = {"ollama.com/",         "www.ollama.com/", "ollama.ai/",
                                        "registry.ollama.ai/", "ollama://",       "ollama:"};
constexpr std::string_view kOllamaLibrary[] = {"library/"};
constexpr std::string_view kModelScope[] = {"modelscope.cn/",      "www.modelscope.cn/", "modelscope.com/",
                                            "www.modelscope.com/", "modelscope.ai/",     "www.modelscope.ai/",
                                            "modelscope://",       "modelscope:",        "ms://"};
constexpr std::string_view kModelScopePages[] = {"models/"};

// Removes the first of `beginnings` with which the text begins, ignoring case. Returns whether there was one.
bool cut_beginning(std::string_view& text, Words beginnings) {
  for (const std::string_view beginning : beginnings)
    if (lower_case(text.substr(0, beginning.size())) == beginning) {
      text.remove_prefix(beginning.size());
      return true;
    }
  return false;
}

void cut_end(std::string_view& text) {
  text = text.substr(0, text.find_first_of("?#"));
  while (text.ends_with('/')) text.remove_suffix(1);
}

// "ORG/NAME" from the text after a host.
std::string_view first_two_parts(std::string_view text) {
  const size_t slash = text.find('/');
  return slash == text.npos ? text : text.substr(0, text.find('/', slash + 1));
}

// Whether the text contains only letters, digits and other characters of names, so that a message can repeat
// it as part of a command.
bool is_plain(std::string_view text) {
  return !text.empty() && text.size() <= 200 && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/' || c == ':';
  });
}

}  // namespace

Site cut_site(std::string_view& text) {
  std::string_view rest = text;
  const bool web = cut_beginning(rest, kSchemes);
  if (std::string_view other = rest; cut_beginning(other, kOllama) || cut_beginning(other, kModelScope))
    return Site::other;
  if (!cut_beginning(rest, kHubs)) return web ? Site::other : Site::none;
  cut_end(rest);
  text = rest;
  return Site::hub;
}

std::string advice_on(std::string_view text) {
  const std::string usual = fmt::format("give {}", kNameForms);
  const bool web = cut_beginning(text, kSchemes);
  if (cut_beginning(text, kOllama)) {
    cut_end(text);
    cut_beginning(text, kOllamaLibrary);
    if (!is_plain(text)) return usual;
    return fmt::format(
        "it is a model of Ollama's registry, which is not read: `ollama pull {0}` brings it, and ollama:{0} "
        "names it then; or {1} of the Hugging Face hub",
        text, usual);
  }
  if (cut_beginning(text, kModelScope)) {
    cut_end(text);
    cut_beginning(text, kModelScopePages);
    const std::string name(first_two_parts(text));
    if (!is_plain(name)) return usual;
    return fmt::format(
        "it is a model of ModelScope, which is not read: `anabranch pull {0}` if the Hugging Face hub has it "
        "too, or `modelscope download --model {0} --local_dir DIR`, and DIR names it then; else {1}",
        name, usual);
  }
  if (web)
    return fmt::format(
        "it is no address of the Hugging Face hub: download the file, and give its path, or {}", usual);
  if (text.find('/') == text.npos && is_plain(text)) {
    const std::string there = where_is(text);
    return fmt::format("{}{}{}; ollama:{} names a model that Ollama has downloaded", there,
                       there.empty() ? "" : "; else ", usual, text);
  }
  return usual;
}

}  // namespace anabranch::hub
