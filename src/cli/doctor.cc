// `doctor`: describes the machine, what would be used of it, and what prevents that.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/cpu_info.h"
#include "base/json.h"
#include "cache/disk_tools.h"
#include "cli/conversation.h"
#include "cli/machine_summary.h"
#include "cli/model_summary.h"
#include "cli/print.h"
#include "cli/reports.h"
#include "cli/tune.h"
#include "ops/open.h"

namespace anabranch::cli {
namespace {

// Suggestions for this machine, the most important first.
std::vector<std::string> advice(const CpuInfo& cpu, int threads, const Json& report) {
  std::vector<std::string> lines;
  const double memory_gb = cpu.memory_bytes / 1e9;
  if (report.contains("model")) {
    const Json& model = report["model"];
    for (const Json& problem : model["problems"])
      lines.push_back("the model would not run: " + problem.get<std::string>());
    if (model["problems"].empty())
      lines.push_back(fmt::format(
          "`anabranch chat -m {}` to try the model, `anabranch serve -m {}` to use it from programs",
          model["path"].get<std::string>(), model["path"].get<std::string>()));
    if (model["mtp_head"].get<std::string>().starts_with("missing"))
      lines.push_back(
          "the model's prediction head is missing; with it, answers are faster (`anabranch convert "
          "--mtp-from`, docs/convert.md)");
  } else {
    // In 4 bits a billion parameters take 0.6 GB. Half of the memory is left for the KV cache and for other
    // programs.
    lines.push_back(
        fmt::format("models of up to about {:.0f} billion parameters in 4 bits fit into {:.1f} GB of memory; "
                    "`anabranch doctor -m DIR_OR_FILE` looks at one",
                    std::max(1.0, std::floor(memory_gb / 2 / 0.6)), memory_gb));
  }
  lines.push_back(
      fmt::format("leave --threads out: {} would be used ({})", threads, choose_threads(cpu).why));
  if (!ops::cuda_unsupported().empty())
    lines.push_back(
        fmt::format("without an NVIDIA GPU that can be used: {}. `--device cuda` needs the NVIDIA driver and "
                    "its run-time compiler (docs/gpu.md)",
                    ops::cuda_unsupported()));
  else
    lines.push_back("`--device cuda` runs on the NVIDIA GPU, many times as fast (docs/gpu.md)");
  return lines;
}

// The prefix cache of all models in the default folder.
Json states_report() {
  const std::string directory = state_directory("");
  if (directory.empty()) return {{"problem", "nowhere: no directory is known for caches; set HOME"}};
  const auto folders = list_cache(directory);
  if (!folders) return {{"problem", folders.error().message}};
  uint64_t bytes = 0;
  for (const CacheFolder& folder : *folders)
    for (const DiskRecord& record : folder.records) bytes += record.bytes;
  return {{"directory", directory}, {"bytes", bytes}, {"budget_bytes", default_budget(directory, bytes)}};
}

Result<void> run_tune(const DoctorOptions& options, Json& report) {
  const EngineOptions engine = {.model_path = options.model, .device = {options.device}};
  TRY(const auto found, tune(engine, options.tune_seconds));
  const std::string file = tuning_file(options.model, options.device);
  if (file.empty()) return make_error(ErrorKind::io, "no directory is known for caches: set HOME");
  std::string comment = options.model;
  for (const auto& s : found.settings) {
    comment += fmt::format("; {} {}: {:.1f} tok/s, {} (usual): {:.1f}", s.flag, s.best, s.best_rate, s.usual,
                           s.usual_rate);
    std::string tried;
    for (const int value : s.measured.values)
      tried += fmt::format("{}{}: {:.0f}", tried.empty() ? "" : ", ", value, s.measured.best(value));
    report["measured"]["--" + s.flag] = {{"values", s.measured.values}, {"rounds", s.measured.rounds}};
    report["tuned"]["--" + s.flag] =
        fmt::format("{} ({:+.0f} % over {}; tok/s of {}: {})", s.best, 100 * (s.best_rate / s.usual_rate - 1),
                    s.usual, s.of, tried);
  }
  std::replace(comment.begin(), comment.end(), '\n', ' ');
  TRY_VOID(save_tuning(file, found.tuning, comment));
  report["tuned"]["kept_in"] = file;
  return {};
}

}  // namespace

int run_doctor(const DoctorOptions& options) {
  auto device = ops::open_device({options.device});
  if (!device) return fail(device.error());
  Json report = machine_report(**device);
  report["states"] = states_report();
  int status = 0;
  if (!options.model.empty()) {
    const auto checkpoint = Checkpoint::open(options.model);
    if (!checkpoint) return fail(checkpoint.error());
    report["model"] = {{"name", (*checkpoint)->name()}};
    report["model"].update(model_report(**checkpoint, **device));
    status = report["model"]["problems"].empty() ? 0 : 1;
  }
  if (options.tune && status == 0)
    if (const auto tuned = run_tune(options, report); !tuned) return fail(tuned.error());
  const auto lines = advice(cpu_info(), (*device)->threads().size(), report);
  report["advice"] = lines;
  if (options.json) {
    say_json(report, 2);
    return status;
  }
  say_lines(machine_summary(report) + states_summary(report["states"]));
  if (report.contains("model")) say_lines("\n" + model_summary(report["model"]));
  if (report.contains("tuned")) {
    say("\ntuned:\n");
    print_table(report["tuned"], "  ");
  }
  say("\nadvice:\n");
  for (const std::string& line : lines) say("  - {}\n", line);
  return status;
}

}  // namespace anabranch::cli
