// `doctor`: what machine this is, what would be used, and what stands in the way.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "base/cpu_info.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/mtp_head.h"
#include "cli/conversation.h"
#include "ops/open.h"
#include "ops/probe.h"
#include "ops/table.h"

namespace anabranch::cli {
namespace {

// "unknown" where the machine does not say.
Json kilobytes(uint64_t bytes) {
  return bytes > 0 ? Json(bytes / 1024) : Json("unknown");
}

Json machine_report(Device& device) {
  const auto& cpu = cpu_info();
  const auto limits = ops::measure_limits(device);
  Json isa = Json::array();
  if (cpu.avx2) isa.push_back("avx2");
  if (cpu.avx512) isa.push_back("avx512");
  if (cpu.avx512_vnni) isa.push_back("avx512-vnni");
  if (cpu.neon) isa.push_back("neon");
  return {
      {"version", ANABRANCH_VERSION},
      {"processor", cpu.model},
      {"cores",
       {{"performance", cpu.performance_cores},
        {"efficiency", cpu.efficiency_cores},
        {"hardware_threads", cpu.logical_cores},
        {"quota_cpus", cpu.quota > 0 ? Json(cpu.quota) : Json("none")}}},
      {"caches_kib",
       {{"l1d", kilobytes(cpu.l1d_bytes)}, {"l2", kilobytes(cpu.l2_bytes)}, {"l3", kilobytes(cpu.l3_bytes)}}},
      {"threads", device.threads().size()},
      {"threads_because", choose_threads(cpu).why},
      {"memory_gb", cpu.memory_bytes / 1e9},
      {"instruction_sets", isa},
      {"kernels", device.ops().kernels_name(device)},
      {"cuda", ops::cuda_unsupported().empty() ? "usable" : ops::cuda_unsupported()},
      {"metal", ops::metal_unsupported().empty() ? "usable, not tried yet" : ops::metal_unsupported()},
      {"memory_read_gb_s", limits.memory_gb_s},
      {"cache_read_gb_s", limits.cache_gb_s},
      {"int8_gop_s", limits.int8_gop_s},
      {"fp32_gflop_s", limits.fp32_gflop_s}};
}

// Whether the model can draft tokens by itself.
std::string mtp_report(const Checkpoint& checkpoint, uint64_t tensors) {
  if (tensors > 0) return "yes";
  std::error_code code;
  const bool directory = std::filesystem::is_directory(checkpoint.path(), code);
  const std::string note = missing_mtp_note(checkpoint, directory ? checkpoint.path() : "");
  return note.empty() ? "no" : "missing: " + note;
}

Result<Json> model_report(const std::string& path) {
  TRY(auto checkpoint, Checkpoint::open(path));
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> types;
  uint64_t mtp = 0, mtp_bytes = 0;
  for (const auto& tensor : checkpoint->tensors()) {
    bytes += tensor.bytes;
    types[tensor.type] += tensor.bytes;
    if (!tensor.name.starts_with("mtp.")) continue;
    mtp++;
    mtp_bytes += tensor.bytes;
  }
  Json by_type = Json::object();
  for (const auto& [type, size] : types) by_type[type] = size / 1e6;
  const Json& config = checkpoint->config();
  return Json{{"path", checkpoint->path()},
              {"model_type", string_at(config, "model_type")},
              {"tensors", checkpoint->tensors().size()},
              {"mtp_head", mtp_report(*checkpoint, mtp)},
              {"mtp_tensors", mtp},
              {"mtp_mb", mtp_bytes / 1e6},
              {"file_mb", bytes / 1e6},
              {"mb_by_type", by_type},
              {"fits_in_memory", bytes * 1.2 < cpu_info().memory_bytes}};
}

void print_table(const Json& report, const std::string& indent) {
  for (const auto& [key, value] : report.items()) {
    if (value.is_object()) {
      fmt::print("{}{}:\n", indent, key);
      print_table(value, indent + "  ");
    } else if (value.is_number_float()) {
      fmt::print("{}{:<20} {:.1f}\n", indent, key, value.get<double>());
    } else {
      fmt::print("{}{:<20} {}\n", indent, key, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

// What to do next on this machine, most important first.
std::vector<std::string> advice(const CpuInfo& cpu, int threads, const Json& report) {
  std::vector<std::string> lines;
  const double memory_gb = cpu.memory_bytes / 1e9;
  if (report.contains("model")) {
    const Json& model = report["model"];
    if (!model["fits_in_memory"].get<bool>())
      lines.push_back(
          fmt::format("{:.1f} GB of weights do not fit into {:.1f} GB of memory with what running takes: "
                      "quantise them (`anabranch convert SOURCE OUTPUT --bits 4`) or take a smaller model",
                      model["file_mb"].get<double>() / 1e3, memory_gb));
    else
      lines.push_back(fmt::format(
          "`anabranch chat -m {}` to try the model, `anabranch serve -m {}` to use it from programs",
          model["path"].get<std::string>(), model["path"].get<std::string>()));
    if (model["mtp_head"].get<std::string>().starts_with("missing"))
      lines.push_back(
          "the model's prediction head is missing; with it, answers are faster (`anabranch convert "
          "--mtp-from`, docs/convert.md)");
  } else {
    // In 4 bits a billion parameters take 0.6 GB; half of the memory is left to states and to others.
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

}  // namespace

int run_doctor(const DoctorOptions& options) {
  auto device = ops::open_device({});
  if (!device) return fail(device.error());
  Json report = machine_report(**device);
  if (!options.model.empty()) {
    auto model = model_report(options.model);
    if (!model) return fail(model.error());
    report["model"] = *model;
  }
  const auto lines = advice(cpu_info(), (*device)->threads().size(), report);
  report["advice"] = lines;
  if (options.json) {
    fmt::print("{}\n", report.dump(2));
    return 0;
  }
  report.erase("advice");
  print_table(report, "");
  fmt::print("\nadvice:\n");
  for (const std::string& line : lines) fmt::print("  - {}\n", line);
  return 0;
}

}  // namespace anabranch::cli
