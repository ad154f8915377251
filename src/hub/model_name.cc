#include "hub/model_name.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <vector>

#include "base/lower_case.h"
#include "hub/address.h"
#include "hub/model_files.h"

namespace anabranch::hub {
namespace {

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// The rules of the hub for users, organisations and repositories.
bool is_repo_part(std::string_view part) {
  constexpr size_t kMost = 96;
  if (part.empty() || part.size() > kMost || part.find("--") != part.npos || part.find("..") != part.npos)
    return false;
  const auto allowed = [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; };
  const auto at_end = [](char c) { return c == '-' || c == '.'; };
  return std::ranges::all_of(part, allowed) && !at_end(part.front()) && !at_end(part.back());
}

bool is_revision(std::string_view text) {
  const auto allowed = [](char c) {
    return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.' || c == '/';
  };
  return std::ranges::all_of(text, allowed) && is_safe_path(text);
}

bool is_quant(std::string_view text) {
  constexpr size_t kMost = 64;
  const auto allowed = [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; };
  return !text.empty() && text.size() <= kMost && std::ranges::all_of(text, allowed);
}

bool is_weights_file(std::string_view text) {
  return (text.ends_with(".gguf") || text.ends_with(".safetensors")) && is_safe_path(text) &&
         text.find_first_of(":@") == text.npos;
}

// Cuts `text` before the first `mark`; returns the text after it, if there is a mark.
std::optional<std::string_view> cut_at(std::string_view& text, char mark) {
  const size_t at = text.find(mark);
  if (at == text.npos) return std::nullopt;
  const auto rest = text.substr(at + 1);
  text = text.substr(0, at);
  return rest;
}

bool set_tag(ModelName& name, std::string_view tag) {
  if (!name.file.empty() || !name.quant.empty()) return false;
  if (lower_case(tag) == "latest") return true;  // Ollama's tag for what has no other
  if (is_weights_file(tag))
    name.file = tag;
  else if (is_quant(tag))
    name.quant = tag;
  else
    return false;
  return true;
}

// "org/name" or "org/name/file".
bool set_repo(ModelName& name, std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == text.npos) return false;
  const size_t second = text.find('/', slash + 1);
  const std::string_view org = text.substr(0, slash);
  const std::string_view repo = text.substr(slash + 1, second == text.npos ? second : second - slash - 1);
  if (!is_repo_part(org) || !is_repo_part(repo) || is_weights_file(repo)) return false;
  name.repo = std::string(org) + "/" + std::string(repo);
  if (second == text.npos) return true;
  name.file = text.substr(second + 1);
  return is_weights_file(name.file);
}

// Decodes "%2F" and the like.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); i++) {
    unsigned code = 0;
    const char* const digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2) {
      out += static_cast<char>(code);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    if (slash > 0) parts.push_back(unescaped(path.substr(0, slash)));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return parts;
}

// First parts of addresses that do not belong to models.
constexpr std::string_view kOtherPages[] = {"api",    "blog",   "collections", "datasets", "docs",
                                            "models", "papers", "posts",       "settings", "spaces"};
// Third parts of addresses with a revision and a path in it.
constexpr std::string_view kPlaces[] = {"blob", "resolve", "raw", "tree"};

bool is_one_of(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// Parses an address within a repository: ORG/NAME/tree/REVISION/FOLDER, ORG/NAME/blob/REVISION/FILE. Other
// pages of a model, and files that are not weights, stand for the model.
std::optional<ModelName> parse_page(const std::vector<std::string>& parts) {
  if (!is_repo_part(parts[0]) || !is_repo_part(parts[1])) return std::nullopt;
  ModelName name{.repo = parts[0] + "/" + parts[1]};
  if (std::string_view repo = name.repo; cut_site(repo) != Site::none)
    return std::nullopt;  // no organisation
  if (!is_one_of(kPlaces, parts[2]) || parts.size() < 4) return name;
  if (!is_revision(parts[3])) return std::nullopt;
  name.revision = parts[3];
  std::string path;
  for (size_t i = 4; i < parts.size(); i++) path += (i > 4 ? "/" : "") + parts[i];
  if (is_weights_file(path))
    name.file = path;
  else if (parts.size() > 4 && lower_case(quant_of(parts.back())) == lower_case(parts.back()))
    name.quant = parts.back();  // a folder with one quantisation
  return name;
}

// Whether the parts after the host are an address for parse_page(), and not a name with a tag, a revision or
// a file.
bool is_page(const std::vector<std::string>& parts, std::string_view text) {
  if (parts.size() < 3 || parts[1].find_first_of(":@") != std::string::npos) return false;
  return is_one_of(kPlaces, parts[2]) || !is_weights_file(text);
}

}  // namespace

std::string ModelName::text() const {
  std::string out = repo;
  if (!quant.empty()) out += ":" + quant;
  if (!file.empty()) out += "/" + file;
  if (revision != "main") out += "@" + revision;
  return out;
}

std::optional<ModelName> parse_model_name(std::string_view text) {
  const Site site = cut_site(text);
  if (site == Site::other) return std::nullopt;
  if (site == Site::hub) {
    if (std::string_view rest = text; cut_site(rest) != Site::none) return std::nullopt;  // no organisation
    const auto parts = parts_of(text);
    if (parts.empty() || is_one_of(kOtherPages, parts[0])) return std::nullopt;
    if (is_page(parts, text)) return parse_page(parts);
    if (text.ends_with(".git")) text.remove_suffix(4);
  }
  ModelName name;
  if (auto revision = cut_at(text, '@')) {
    if (const auto tag = cut_at(*revision, ':'); tag && !set_tag(name, *tag)) return std::nullopt;
    if (revision->empty() || !is_revision(*revision)) return std::nullopt;
    name.revision = *revision;
  }
  if (const auto tag = cut_at(text, ':'); tag && !set_tag(name, *tag)) return std::nullopt;
  const bool tagged = !name.file.empty() || !name.quant.empty();
  const std::string file = name.file;
  if (!set_repo(name, text)) return std::nullopt;
  if (tagged && name.file != file) return std::nullopt;  // ORG/NAME/FILE together with a tag
  return name;
}

bool is_commit(std::string_view text) {
  return text.size() == 40 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_safe_path(std::string_view path) {
  constexpr size_t kMost = 1024, kMostOfPart = 255;
  if (path.empty() || path.size() > kMost) return false;
  if (std::ranges::any_of(path, [](unsigned char c) { return c < ' ' || c == 127 || c == '\\'; }))
    return false;
  while (true) {
    const size_t slash = path.find('/');
    const auto part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > kMostOfPart) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace anabranch::hub
