#include "cli/reports.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "base/cpu_info.h"
#include "base/memory_info.h"
#include "checkpoint/mtp_head.h"
#include "cli/print.h"
#include "engine/loader.h"
#include "engine/recommendation.h"
#include "models/vision_tower.h"
#include "ops/open.h"
#include "ops/probe.h"
#include "ops/table.h"
#include "state/sequence_state.h"

namespace anabranch::cli {
namespace {

// A size in KiB; "unknown" for 0, because then the machine does not report it.
Json kilobytes(uint64_t bytes) {
  return bytes > 0 ? Json(bytes / 1024) : Json("unknown");
}

// The beginnings of the names of tensors for prediction. spec: null if the config cannot be read.
std::vector<std::string> names_of_mtp(const ModelSpec* spec) {
  return (spec ? *spec : ModelSpec()).names_of_mtp();
}

bool is_of_mtp(const TensorInfo& tensor, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& begin) { return tensor.name.starts_with(begin); });
}

// Whether the model can draft tokens by itself.
std::string mtp_report(const Checkpoint& checkpoint, const ModelSpec* spec, uint64_t tensors) {
  if (spec && !spec->runs_mtp) return "no";
  if (spec && tensors > 0 && !spec->mtp_unsupported.empty()) return "no: " + spec->mtp_unsupported;
  if (tensors > 0) return "yes";
  std::error_code code;
  const bool directory = std::filesystem::is_directory(checkpoint.path(), code);
  const std::string note = missing_mtp_note(checkpoint, directory ? checkpoint.path() : "");
  return note.empty() ? "no" : "missing: " + note;
}

// The memory for weights and states, and how much of it is free now; free: 0 = not known.
struct Memory {
  uint64_t total = 0, free = 0;
};

Memory memory_for(const Device& device) {
  if (device.has_own_memory()) return {device.memory_bytes(), device.free_bytes()};
  return {machine_memory(), available_memory()};
}

uint64_t elements(const TensorInfo& tensor) {
  uint64_t count = 1;
  for (const int64_t size : tensor.shape) count *= static_cast<uint64_t>(size);
  return count;
}

bool fits(uint64_t tensor_bytes, uint64_t memory) {
  return static_cast<double>(tensor_bytes) * 1.2 < static_cast<double>(memory);
}

// Whether any tensor's name starts with `prefix`. tensors: sorted by name.
bool any_with_prefix(const std::vector<TensorInfo>& tensors, const std::string& prefix) {
  const auto at = std::ranges::lower_bound(tensors, prefix, {}, &TensorInfo::name);
  return at != tensors.end() && at->name.starts_with(prefix);
}

// Parts of the model that have no tensor in the files, for example because a shard is missing and there is no
// index.
std::optional<std::string> missing_parts(const Checkpoint& checkpoint, size_t layers) {
  const auto tensors = checkpoint.tensors();
  std::string missing;
  const auto look_for = [&](const std::string& prefix) {
    if (!any_with_prefix(tensors, prefix)) missing += (missing.empty() ? "" : ", ") + prefix + "*";
  };
  look_for("model.embed_tokens.");
  for (size_t i = 0; i < layers; i++) look_for(fmt::format("model.layers.{}.", i));
  look_for("model.norm.");
  if (missing.empty()) return std::nullopt;
  return fmt::format("{}: the files have no tensors {}: is the download complete?", checkpoint.path(),
                     missing);
}

// The model's default sampling parameters, and where they come from.
Json sampling_report(const Checkpoint& checkpoint) {
  const auto recommended = read_recommendation(checkpoint);
  const SamplingParams& s = recommended.sampling;
  Json out = {{"temperature", shortest(s.temperature)}};
  if (s.temperature > 0)
    out.update({{"top_k", s.top_k}, {"top_p", shortest(s.top_p)}, {"min_p", shortest(s.min_p)}});
  if (s.repetition_penalty != 1) out["repetition_penalty"] = shortest(s.repetition_penalty);
  out["from"] = recommended.from;
  return out;
}

}  // namespace

uint64_t memory_of(const Device& device) {
  return memory_for(device).total;
}

uint64_t free_memory_of(const Device& device) {
  return memory_for(device).free;
}

uint64_t tensor_bytes(const Checkpoint& checkpoint) {
  uint64_t bytes = 0;
  for (const auto& tensor : checkpoint.tensors()) bytes += tensor.bytes;
  return bytes;
}

void print_table(const Json& report, const std::string& indent) {
  for (const auto& [key, value] : report.items()) {
    if (value.is_object()) {
      say("{}{}:\n", indent, key);
      print_table(value, indent + "  ");
    } else if (value.is_number_float()) {
      say("{}{:<20} {:.1f}\n", indent, key, value.get<double>());
    } else {
      say("{}{:<20} {}\n", indent, key, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

Json machine_report(Device& device) {
  const auto& cpu = cpu_info();
  const auto limits = ops::measure_limits(device);
  Json isa = Json::array();
  if (cpu.avx2) isa.push_back("avx2");
  if (cpu.avx512) isa.push_back("avx512");
  if (cpu.avx512_vnni) isa.push_back("avx512-vnni");
  if (cpu.amx_int8) isa.push_back("amx-int8");
  if (cpu.neon) isa.push_back("neon");
  if (cpu.neon_dotprod) isa.push_back("neon-dotprod");
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

std::string memory_problem(uint64_t bytes, const Device& device) {
  const Memory memory = memory_for(device);
  if (!fits(bytes, memory.total))
    return fmt::format(
        "{:.1f} GB of weights do not fit into {:.1f} GB of memory with what running takes: "
        "quantise them (`anabranch convert SOURCE OUTPUT --bits 4`) or take a smaller model",
        bytes / 1e9, memory.total / 1e9);
  if (memory.free > 0 && !fits(bytes, memory.free))
    return fmt::format(
        "{:.1f} GB of weights do not fit into the {:.1f} GB of memory that are free now: end other programs",
        bytes / 1e9, memory.free / 1e9);
  return "";
}

std::vector<Error> file_errors(const Checkpoint& checkpoint, const Device& device) {
  std::vector<Error> errors;
  const auto spec = read_model_spec(checkpoint, device);
  if (!spec) errors.push_back(spec.error());
  if (const auto types = checkpoint.check_types(names_of_mtp(spec ? &*spec : nullptr)); !types)
    errors.push_back(types.error());
  if (const auto tokenizer = load_tokenizer(checkpoint); !tokenizer) errors.push_back(tokenizer.error());
  return errors;
}

std::vector<std::string> file_problems(const Checkpoint& checkpoint, const Device& device) {
  std::vector<std::string> problems;
  for (const Error& error : file_errors(checkpoint, device)) problems.push_back(error.message);
  if (const auto spec = read_model_spec(checkpoint, device))
    if (auto missing = missing_parts(checkpoint, spec->layers.size()))
      problems.push_back(std::move(*missing));
  return problems;
}

std::vector<std::string> model_problems(const Checkpoint& checkpoint, const Device& device) {
  auto problems = file_problems(checkpoint, device);
  if (auto problem = memory_problem(tensor_bytes(checkpoint), device); !problem.empty())
    problems.push_back(std::move(problem));
  return problems;
}

uint64_t parameters_in(const Checkpoint& checkpoint, const ModelSpec* spec) {
  const auto mtp = names_of_mtp(spec);
  uint64_t parameters = 0;
  for (const auto& tensor : checkpoint.tensors())
    if (!is_of_mtp(tensor, mtp)) parameters += elements(tensor);
  return parameters;
}

Json model_report(const Checkpoint& checkpoint, const Device& device) {
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> types;
  const auto spec = read_model_spec(checkpoint, device);
  const ModelSpec* read = spec ? &*spec : nullptr;
  const auto names = names_of_mtp(read);
  uint64_t mtp = 0, mtp_bytes = 0;
  for (const auto& tensor : checkpoint.tensors()) {
    bytes += tensor.bytes;
    types[tensor.type] += tensor.bytes;
    if (!is_of_mtp(tensor, names)) continue;
    mtp++;
    mtp_bytes += tensor.bytes;
  }
  Json by_type = Json::object();
  for (const auto& [type, size] : types) by_type[type] = size / 1e6;
  Json memory = nullptr;  // of one conversation; null: the config cannot be read
  if (spec) {
    const StateLayout layout = spec->state_layout();
    memory = {{"fixed_bytes", fixed_bytes(layout, device)},
              {"bytes_per_token", kv_bytes_per_token(layout, device)}};
  }
  return {{"path", checkpoint.path()},
          {"state_memory", memory},
          {"model_type", string_at(checkpoint.config(), "model_type")},
          {"parameters", parameters_in(checkpoint, read)},
          {"context_length", spec ? Json(spec->context_length) : Json("unknown")},
          {"tensors", checkpoint.tensors().size()},
          {"mtp_head", mtp_report(checkpoint, read, mtp)},
          {"mtp_tensors", mtp},
          {"mtp_mb", mtp_bytes / 1e6},
          {"sampling", sampling_report(checkpoint)},
          {"vision_tower", VisionTower::present(checkpoint) ? "yes" : "no"},
          {"file_mb", bytes / 1e6},
          {"mb_by_type", by_type},
          {"fits_in_memory", fits(bytes, memory_for(device).total)},
          {"problems", model_problems(checkpoint, device)}};
}

}  // namespace anabranch::cli
