#include "cli/machine_summary.h"

#include <fmt/core.h>

#include "cli/model_summary.h"
#include "cli/text.h"

namespace anabranch::cli {
namespace {

std::string processor_of(const Json& report) {
  const Json& cores = report["cores"];
  const int performance = cores["performance"].get<int>(), efficiency = cores["efficiency"].get<int>();
  std::string out = string_at(report, "processor");
  if (efficiency > 0)
    out += fmt::format(": {} quick and {} efficient cores", performance, efficiency);
  else
    out += fmt::format(": {}", count_text(static_cast<uint64_t>(performance), "core"));
  out += fmt::format(" with {}", count_text(cores["hardware_threads"].get<uint64_t>(), "hardware thread"));
  if (cores["quota_cpus"].is_number())
    out += fmt::format(", of which this process may use {}", cores["quota_cpus"].dump());
  return out;
}

std::string caches_of(const Json& caches) {
  std::string out;
  for (const auto& [level, kib] : caches.items())
    if (kib.is_number())
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", level, size_text(kib.get<uint64_t>() * 1024));
  return out;
}

std::string instructions_of(const Json& report) {
  std::string out;
  for (const Json& name : report["instruction_sets"])
    out += (out.empty() ? "" : ", ") + name.get<std::string>();
  if (out.empty()) out = "none beyond the usual ones";
  return fmt::format("{}; the kernels for {} are used", out, string_at(report, "kernels"));
}

// "usable" or why not.
std::string usable(const Json& report, const char* what) {
  const std::string text = string_at(report, what);
  return text.starts_with("usable") ? "yes" + text.substr(6) : "no: " + text;
}

}  // namespace

std::string machine_summary(const Json& report) {
  return summary_line("anabranch", "version " + string_at(report, "version")) +
         summary_line("processor", processor_of(report)) +
         summary_line("caches", caches_of(report["caches_kib"])) +
         summary_line("instructions", instructions_of(report)) +
         summary_line("threads",
                      fmt::format("{}: {}", report["threads"].dump(), string_at(report, "threads_because"))) +
         summary_line("memory",
                      fmt::format("{:.1f} GB, of which {:.1f} GB can be read in a second ({:.1f} GB from the "
                                  "caches)",
                                  report["memory_gb"].get<double>(), report["memory_read_gb_s"].get<double>(),
                                  report["cache_read_gb_s"].get<double>())) +
         summary_line(
             "arithmetic",
             fmt::format("{:.0f} billion operations a second with 8-bit integers, {:.0f} with 32-bit numbers",
                         report["int8_gop_s"].get<double>(), report["fp32_gflop_s"].get<double>())) +
         summary_line("NVIDIA GPU", usable(report, "cuda")) +
         summary_line("Apple GPU", usable(report, "metal"));
}

std::string states_summary(const Json& states) {
  if (states.contains("problem")) return summary_line("prefix cache on disk", string_at(states, "problem"));
  return summary_line(
      "prefix cache on disk",
      fmt::format("{} of {} in {}", size_text(states["bytes"].get<uint64_t>()),
                  size_text(states["budget_bytes"].get<uint64_t>()), string_at(states, "directory")));
}

}  // namespace anabranch::cli
