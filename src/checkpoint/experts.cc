#include "checkpoint/experts.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/file_bytes.h"

namespace anabranch {

namespace {

// Gives all parts the same kind of scales and biases. If they differ, scales become fp32 and include all
// factors, and zero points become biases.
void unify_scales(std::vector<WeightSource>& parts) {
  const WeightSource first = parts.front();
  const auto all = [&](auto same) { return std::ranges::all_of(parts, same); };
  const bool zeros = all([&](const WeightSource& p) {
    return p.symmetric == first.symmetric && p.zero_point == first.zero_point;
  });
  const bool scales = zeros && all([&](const WeightSource& p) {
                        return p.scale_type == first.scale_type && p.scale_factor == first.scale_factor;
                      });
  if (scales || !is_coded(first.kind)) return;
  for (WeightSource& part : parts) {
    part.scale_type = ScaleType::f32;
    part.scale_factor = 1;
    part.read_block_scales = nullptr;
    if (zeros || !part.symmetric) continue;
    part.read_codes = [read = part.read_codes, zero = static_cast<float>(part.zero_point),
                       groups = part.cols / part.group](int64_t row, int64_t count, uint8_t* codes,
                                                        float* scales_out, float* biases) {
      read(row, count, codes, scales_out, biases);
      for (int64_t i = 0; i < count * groups; i++) biases[i] = -zero * scales_out[i];
    };
    part.symmetric = false;
    part.zero_point = 0;
  }
}

}  // namespace

WeightSource join_rows(std::vector<WeightSource> parts) {
  unify_scales(parts);
  WeightSource out = parts.front();
  const int64_t cols = out.cols, groups = out.group > 0 ? cols / out.group : 0;
  std::vector<int64_t> ends;  // of the parts' rows
  for (const WeightSource& part : parts) ends.push_back((ends.empty() ? 0 : ends.back()) + part.rows);
  out.rows = ends.back();
  out.read_block_scales = nullptr;
  const auto shared = std::make_shared<const std::vector<WeightSource>>(std::move(parts));
  const auto for_parts = [shared, ends](int64_t first, int64_t count, auto&& read) {
    for (int64_t done = 0; done < count;) {
      const auto part = static_cast<size_t>(std::ranges::upper_bound(ends, first + done) - ends.begin());
      const int64_t row = first + done - (part > 0 ? ends[part - 1] : 0);
      const int64_t n = std::min(count - done, (*shared)[part].rows - row);
      read((*shared)[part], row, n, done);
      done += n;
    }
  };
  if (out.read_codes)
    out.read_codes = [for_parts, cols, groups](int64_t first, int64_t count, uint8_t* codes, float* scales,
                                               float* biases) {
      for_parts(first, count, [&](const WeightSource& part, int64_t row, int64_t n, int64_t at) {
        part.read_codes(row, n, codes + at * cols, scales + at * groups, biases + at * groups);
      });
    };
  if (out.read_dense)
    out.read_dense = [for_parts, cols](int64_t first, int64_t count, float* values) {
      for_parts(first, count, [&](const WeightSource& part, int64_t row, int64_t n, int64_t at) {
        part.read_dense(row, n, values + at * cols);
      });
    };
  return out;
}

bool same_format(const Entry& a, const Entry& b) {
  return a.info.shape == b.info.shape && a.source.kind == b.source.kind && a.source.bits == b.source.bits &&
         a.source.group == b.source.group && a.source.table == b.source.table;
}

namespace {

constexpr std::string_view kExperts = ".mlp.experts.";
constexpr std::string_view kStacked = ".mlp.switch_mlp.";
constexpr int64_t kMaxExperts = 1 << 16;

// The name of a projection, also for Mixtral's names w1, w3 and w2; empty for other names.
std::string_view projection(std::string_view name) {
  for (const auto& [mixtral, common] : {std::pair{"w1", "gate_proj"}, {"w3", "up_proj"}, {"w2", "down_proj"}})
    if (name == mixtral || name == common) return common;
  return {};
}

struct ExpertName {
  int64_t expert;
  std::string stacked;  // name of the joined tensor
};

// "mtp.layers.0.mlp.experts.12.up_proj.weight" -> 12, "mtp.layers.0.mlp.switch_mlp.up_proj.weight"
std::optional<ExpertName> split_name(std::string_view name) {
  const size_t at = name.find(kExperts);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(at + kExperts.size());
  const size_t dot = rest.find('.');
  if (dot == std::string_view::npos || !rest.ends_with(".weight")) return std::nullopt;
  int64_t expert = 0;
  const auto end = std::from_chars(rest.data(), rest.data() + dot, expert);
  const std::string_view digits = rest.substr(0, dot), module = rest.substr(dot + 1);
  if (end.ec != std::errc() || std::to_string(expert) != digits || expert < 0 || expert >= kMaxExperts)
    return std::nullopt;
  const size_t suffix = module.rfind('.');
  const std::string_view common = projection(module.substr(0, suffix));
  if (common.empty()) return std::nullopt;
  return ExpertName{
      expert, std::string(name.substr(0, at)).append(kStacked).append(common).append(module.substr(suffix))};
}

// The reason why these cannot be one tensor.
std::optional<Error> stacking_error(const std::string& name, const std::map<int64_t, Entry>& experts) {
  const Entry& first = experts.begin()->second;
  const int64_t last = experts.rbegin()->first;
  if (last + 1 != static_cast<int64_t>(experts.size())) {
    int64_t missing = 0;
    while (experts.contains(missing)) missing++;
    return make_error(ErrorKind::invalid, "{}: tensor \"{}\": expert {} of {} is missing", first.info.file,
                      shown(name), missing, last + 1);
  }
  for (const auto& [e, entry] : experts) {
    if (entry.unreadable) return entry.unreadable;
    if (entry.info.shape.size() != 2 || entry.source.rows < 1)
      return make_error(ErrorKind::invalid, "{}: tensor \"{}\" has shape {}; a matrix was expected",
                        entry.info.file, shown(entry.info.name), shape_text(entry.info.shape));
    if (!same_format(first, entry))
      return make_error(ErrorKind::invalid, "{}: tensor \"{}\" is {} {}, but \"{}\" is {} {}",
                        entry.info.file, shown(entry.info.name), entry.info.type,
                        shape_text(entry.info.shape), shown(first.info.name), first.info.type,
                        shape_text(first.info.shape));
  }
  return std::nullopt;
}

Entry stack(const std::string& name, std::map<int64_t, Entry> experts) {
  Entry out{experts.begin()->second.info, {}, stacking_error(name, experts)};
  out.info.name = name;
  out.info.shape.insert(out.info.shape.begin(), static_cast<int64_t>(experts.size()));
  out.info.bytes = 0;
  std::vector<WeightSource> parts;
  for (auto& [e, entry] : experts) {
    out.info.bytes += entry.info.bytes;
    parts.push_back(std::move(entry.source));
  }
  if (!out.unreadable) out.source = join_rows(std::move(parts));
  return out;
}

// Rows of a fused [E, 2I, cols]: of each expert the first I (part 0) or the last I (part 1); interleaved:
// every other row, from the first (part 0) or the second (part 1) on.
Entry half_of(const Entry& fused, std::string name, int64_t part, bool interleaved) {
  Entry out = fused;
  out.info.name = std::move(name);
  out.info.bytes /= 2;
  const int64_t experts = out.info.shape[0], half = out.info.shape[1] /= 2;
  if (fused.unreadable) return out;
  std::vector<int64_t> rows;
  rows.reserve(static_cast<size_t>(experts * half));
  for (int64_t e = 0; e < experts; e++)
    for (int64_t i = 0; i < half; i++)
      rows.push_back(2 * e * half + (interleaved ? 2 * i + part : part * half + i));
  out.source = select_rows(fused.source, std::move(rows));
  return out;
}

// Every other value of the interleaved biases [E, 2I] of gates and ups.
Entry half_of_bias(const Entry& fused, std::string name, int64_t part) {
  Entry out = fused;
  out.info.name = std::move(name);
  out.info.bytes /= 2;
  out.info.shape[1] /= 2;
  if (fused.unreadable) return out;
  out.source = decoded(fused.source);
  out.source.cols /= 2;
  out.source.read_dense = [all = fused.source, part](int64_t first, int64_t count, float* values) {
    std::vector<float> both(static_cast<size_t>(count * all.cols));
    read_values(all, first, count, both.data());
    for (int64_t i = 0; i < count * all.cols / 2; i++) values[i] = both[static_cast<size_t>(2 * i + part)];
  };
  return out;
}

constexpr std::string_view kGateUp = ".mlp.experts.gate_up_proj", kUp = ".mlp.experts.up_proj",
                           kDown = ".mlp.experts.down_proj",
                           kGateUpWeight = ".mlp.experts.gate_up_proj.weight",
                           kGateUpBias = ".mlp.experts.gate_up_proj_bias",
                           kDownBias = ".mlp.experts.down_proj_bias";

// The fused matrices of an expert's gate and up: [E, 2I, cols].
bool is_fused(const Entry& entry) {
  const auto& shape = entry.info.shape;
  return shape.size() == 3 && shape[1] % 2 == 0 && shape[1] > 0 && shape[2] > 0;
}

}  // namespace

bool is_expert_module(std::string_view module) {
  return module.find(kStacked) != std::string_view::npos;
}

std::vector<Entry> stack_experts(std::vector<Entry> entries) {
  std::vector<Entry> out;
  std::map<std::string, std::map<int64_t, Entry>> unfused;  // by the name of the joined tensor
  // Names up to kGateUp of gpt-oss' stacks, in which the rows of gate and up alternate.
  std::set<std::string, std::less<>> alternating;
  for (const Entry& entry : entries)
    if (const std::string_view name = entry.info.name; name.ends_with(kGateUpBias))
      alternating.emplace(name.substr(0, name.size() - kGateUpBias.size()));
  for (Entry& entry : entries) {
    const std::string name = entry.info.name;
    const auto& shape = entry.info.shape;
    const auto before = [&](std::string_view suffix) { return name.substr(0, name.size() - suffix.size()); };
    const auto renamed = [&](std::string_view suffix, const char* module) {
      return before(suffix).append(kStacked).append(module);
    };
    const std::string_view fused = name.ends_with(kGateUp)         ? kGateUp
                                   : name.ends_with(kGateUpWeight) ? kGateUpWeight
                                                                   : "";
    const bool alternates = !fused.empty() && alternating.contains(before(fused));
    if (auto expert = split_name(name)) {
      auto& experts = unfused[expert->stacked];
      // If the same matrix occurs under Mixtral's name and the common one, the second is left over.
      if (!experts.try_emplace(expert->expert, std::move(entry)).second) out.push_back(std::move(entry));
    } else if (is_fused(entry) && (fused == kGateUp || alternates)) {
      out.push_back(half_of(entry, renamed(fused, "gate_proj.weight"), 0, alternates));
      out.push_back(half_of(entry, renamed(fused, "up_proj.weight"), 1, alternates));
    } else if (name.ends_with(kGateUpBias) && shape.size() == 2 && shape[1] % 2 == 0 && shape[1] > 0) {
      out.push_back(half_of_bias(entry, renamed(kGateUpBias, "gate_proj.bias"), 0));
      out.push_back(half_of_bias(entry, renamed(kGateUpBias, "up_proj.bias"), 1));
    } else {
      if (name.ends_with(kDown) && shape.size() == 3)
        entry.info.name = renamed(kDown, "down_proj.weight");
      else if (name.ends_with(kUp) && shape.size() == 3)
        entry.info.name = renamed(kUp, "up_proj.weight");
      else if (name.ends_with(kDownBias))
        entry.info.name = renamed(kDownBias, "down_proj.bias");
      out.push_back(std::move(entry));
    }
  }
  for (auto& [name, experts] : unfused) out.push_back(stack(name, std::move(experts)));
  return out;
}

}  // namespace anabranch
