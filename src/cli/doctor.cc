// `doctor`: what machine this is, what would be used, and what stands in the way.
#include <fmt/core.h>
#include <mlx/version.h>
#include <unistd.h>

#include <filesystem>

#include "base/cpu_info.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/mtp_head.h"
#include "cli/conversation.h"
#include "ops/backend.h"
#include "ops/probe.h"

namespace anabranch::cli {
namespace {

// "unknown" where the machine does not say.
Json kilobytes(uint64_t bytes) {
  return bytes > 0 ? Json(bytes / 1024) : Json("unknown");
}

Json machine_report() {
  const auto& cpu = cpu_info();
  const auto limits = ops::measure_limits();
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
      {"threads", thread_count()},
      {"threads_because", choose_threads(cpu).why},
      {"memory_gb", cpu.memory_bytes / 1e9},
      {"instruction_sets", isa},
      {"kernels", ops::cpu_target()},
      {"cuda", ops::cuda_obstacle().empty() ? "usable" : ops::cuda_obstacle()},
      {"metal", ops::metal_obstacle().empty() ? "usable, not tried yet" : ops::metal_obstacle()},
      {"mlx", mlx::core::version()},
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

}  // namespace

int run_doctor(const DoctorOptions& options) {
  Json report = machine_report();
  if (!options.model.empty()) {
    auto model = model_report(options.model);
    if (!model) return fail(model.error());
    report["model"] = *model;
  }
  if (options.json)
    fmt::print("{}\n", report.dump(2));
  else
    print_table(report, "");
  return 0;
}

}  // namespace anabranch::cli
