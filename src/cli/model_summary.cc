#include "cli/model_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "cli/print.h"
#include "cli/text.h"

namespace anabranch::cli {
namespace {

// 146379770: "146 million".
std::string count_of(uint64_t n) {
  if (n >= 1'000'000'000) return fmt::format("{:.1f} billion", n / 1e9);
  if (n >= 1'000'000) return fmt::format("{:.0f} million", n / 1e6);
  return std::to_string(n);
}

std::string with_commas(uint64_t n) {
  std::string out = std::to_string(n);
  for (size_t at = out.size(); at > 3;) out.insert(at -= 3, ",");
  return out;
}

// "affine-4/64": "4 bits in groups of 64". Other types keep the names that the file formats use.
std::string type_in_words(const std::string& type) {
  int bits = 0, group = 0;
  return std::sscanf(type.c_str(), "affine-%d/%d", &bits, &group) == 2
             ? fmt::format("{} bits in groups of {}", bits, group)
             : type;
}

std::string weights_of(const Json& report) {
  std::vector<std::pair<double, std::string>> types;
  double sum = 0;
  for (const auto& [type, mb] : report["mb_by_type"].items()) {
    types.emplace_back(mb.get<double>(), type_in_words(type));
    sum += mb.get<double>();
  }
  std::ranges::sort(types, std::greater());
  std::string out = size_text(static_cast<uint64_t>(sum * 1e6));
  const auto parameters = report["parameters"].get<double>();
  if (parameters > 0) out += fmt::format(", {:.1f} bits a weight", sum * 8e6 / parameters);
  std::string parts;
  for (const auto& [mb, type] : types)
    if (mb >= 0.01 * sum)
      parts += fmt::format("{}{}{}", parts.empty() ? "" : ", ", type,
                           types.size() > 1 ? fmt::format(" ({:.0f} %)", 100 * mb / sum) : "");
  return parts.empty() ? out : out + ": " + parts;
}

// Weights and one conversation's state, at a usual context and at the longest.
std::string memory_of_report(const Json& report) {
  const Json& state = report["state_memory"];
  if (!state.is_object() || !report["context_length"].is_number()) return "";
  const auto weights = static_cast<uint64_t>(report["file_mb"].get<double>() * 1e6);
  const auto longest = report["context_length"].get<uint64_t>();
  std::string out;
  uint64_t last = 0;
  for (const uint64_t context :
       {std::min<uint64_t>(longest, 4096), std::min<uint64_t>(longest, 32768), longest}) {
    if (context == std::exchange(last, context)) continue;
    const uint64_t bytes =
        weights + state["fixed_bytes"].get<uint64_t>() + context * state["bytes_per_token"].get<uint64_t>();
    out +=
        fmt::format("{}{} with {} tokens", out.empty() ? "" : ", ", size_text(bytes), with_commas(context));
  }
  return out;
}

std::string sampling_of(const Json& sampling) {
  std::string out;
  for (const auto& [name, value] : sampling.items())
    if (name != "from") out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, value.dump());
  return fmt::format("{} ({})", out,
                     sampling["from"] == "default" ? "the files recommend nothing: our default"
                                                   : "from " + string_at(sampling, "from"));
}

}  // namespace

std::string summary_line(const char* what, const std::string& text) {
  return text.empty() ? "" : line_of("{:<20} {}\n", what, text);
}

std::string verdict(const Json& problems) {
  if (problems.empty()) return summary_line("runs here", "yes, as far as its files tell");
  std::string out;
  for (const Json& problem : problems) {
    const auto text = problem.get<std::string>();
    out += out.empty() ? summary_line("runs here", "no, because " + text) : summary_line("", "and " + text);
  }
  return out;
}

std::string model_summary(const Json& report) {
  const Json& context = report["context_length"];
  const bool drafts = report["mtp_head"] == "yes";
  return summary_line("name", string_at(report, "name")) + summary_line("path", string_at(report, "path")) +
         summary_line("type", fmt::format("{}, {} parameters", string_at(report, "model_type"),
                                          count_of(report["parameters"].get<uint64_t>()))) +
         summary_line("weights", weights_of(report)) + summary_line("memory", memory_of_report(report)) +
         summary_line("context",
                      context.is_number() ? with_commas(context.get<uint64_t>()) + " tokens" : "unknown") +
         summary_line("sampling", sampling_of(report["sampling"])) +
         summary_line("MTP head", drafts ? "yes: it drafts by itself" : string_at(report, "mtp_head")) +
         summary_line("images", report["vision_tower"] == "yes" ? "yes" : "no") + verdict(report["problems"]);
}

}  // namespace anabranch::cli
