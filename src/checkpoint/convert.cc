#include "checkpoint/convert.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "base/log.h"
#include "base/thread_pool.h"
#include "checkpoint/affine.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/dense.h"
#include "checkpoint/experts.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/mlx_layout.h"
#include "checkpoint/mtp_head.h"
#include "checkpoint/output_directory.h"
#include "checkpoint/quantize.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard_writer.h"
#include "checkpoint/store.h"

namespace anabranch {

namespace {

constexpr const char* kSideFiles[] = {
    "tokenizer.json",          "tokenizer_config.json", "chat_template.jinja", "chat_template.json",
    "generation_config.json",  "added_tokens.json",     "vocab.json",          "merges.txt",
    "special_tokens_map.json", "tokenizer.model",
};

// How one tensor, or quantised triple, is converted.
struct TensorConversion {
  TensorInfo info;
  std::string module;       // "model.layers.0.mlp.up_proj"; a tensor without ".weight" has its whole name
  std::string out_name;     // in the MLX directory, with ".weight"
  TargetKind kind;          // affine, or how the values are stored: bf16 f16; keep: as f32
  AffineFormat format{};    // of affine
  bool codes_kept = false;  // affine: the source's codes
  WeightKind scale_kind = WeightKind::bf16;
  std::vector<int64_t> shape;
  std::optional<WeightSource> matrix;
};

// Routers decide which experts run, and are small: without a rule they get 8 bits, as mlx-lm gives them.
constexpr AffineFormat kRouterFormat{8, 64};
bool is_router(std::string_view module) {
  return module.ends_with(".mlp.gate") || module.ends_with(".shared_expert_gate");
}

WeightKind stored_kind(TargetKind kind) {
  if (kind == TargetKind::keep) return WeightKind::f32;
  return kind == TargetKind::f16 ? WeightKind::f16 : WeightKind::bf16;
}

int64_t element_count(const std::vector<int64_t>& shape) {
  const auto [rows, cols] = rows_and_cols(shape);
  return rows * cols;
}

std::string sibling(const TensorConversion& job, std::string_view suffix) {
  return job.out_name.substr(0, job.out_name.size() - std::string_view(".weight").size()) +
         std::string(suffix);
}

std::vector<Piece> pieces_of(const TensorConversion& job) {
  if (job.kind != TargetKind::affine) {
    const auto kind = stored_kind(job.kind);
    return {{job.out_name, dtype_name(kind), job.shape,
             static_cast<uint64_t>(element_count(job.shape) * dense_size(kind))}};
  }
  const auto [rows, cols] = rows_and_cols(job.shape);
  const int64_t words = cols * job.format.bits / 32, groups = cols / job.format.group;
  std::vector<int64_t> code_shape = job.shape, scale_shape = job.shape;
  code_shape.back() = words;
  scale_shape.back() = groups;
  const auto scale_bytes = static_cast<uint64_t>(rows * groups * dense_size(job.scale_kind));
  const char* scale_type = dtype_name(job.scale_kind);
  return {{job.out_name, "U32", code_shape, static_cast<uint64_t>(rows * words * 4)},
          {sibling(job, ".scales"), scale_type, scale_shape, scale_bytes},
          {sibling(job, ".biases"), scale_type, scale_shape, scale_bytes}};
}

// "layers.2" before "layers.10".
bool natural_less(std::string_view a, std::string_view b) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const size_t first_i = i, first_j = j;
      while (i < a.size() && digit(a[i])) i++;
      while (j < b.size() && digit(b[j])) j++;
      if (i - first_i != j - first_j) return i - first_i < j - first_j;
      if (const int order = a.substr(first_i, i - first_i).compare(b.substr(first_j, j - first_j)))
        return order < 0;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      i++;
      j++;
    }
  }
  return a.size() - i < b.size() - j;
}

class Converter {
 public:
  Converter(Checkpoint& source, const ConvertOptions& options, const MlxLayout& layout)
      : source_(source), options_(options), layout_(layout) {}

  Result<void> plan() {
    rule_used_.assign(options_.rules.size(), false);
    for (const TensorInfo& info : source_.tensors()) {
      TRY(auto job, plan_tensor(info));
      report_.source_bytes += info.bytes;
      report_.parameters += static_cast<uint64_t>(element_count(info.shape));
      jobs_.push_back(std::move(job));
    }
    for (size_t i = 0; i < rule_used_.size(); i++)
      if (!rule_used_[i])
        return make_error(ErrorKind::invalid, "the rule for \"{}\" decides about no matrix of {}",
                          shown(options_.rules[i].pattern), source_.path());
    std::sort(jobs_.begin(), jobs_.end(), [](const TensorConversion& a, const TensorConversion& b) {
      return natural_less(a.out_name, b.out_name);
    });
    report_.tensors = static_cast<int>(jobs_.size());
    if (auto note = missing_mtp_note(source_, options_.output); !note.empty())
      report_.warnings.push_back(std::move(note));
    for (const TensorConversion& job : jobs_) report_.quantised += job.kind == TargetKind::affine;
    return {};
  }

  Result<ConvertReport> write(const std::string& directory) {
    ShardWriter writer(directory);
    std::vector<std::vector<Piece>> model, mtp;
    for (const TensorConversion& job : jobs_)
      (job.module.starts_with("mtp.") ? mtp : model).push_back(pieces_of(job));
    TRY_VOID(writer.add_files("model", model, options_.max_shard_bytes));
    TRY_VOID(writer.add_files("mtp", mtp, options_.max_shard_bytes));
    uint64_t done = 0;
    for (TensorConversion& job : jobs_) {
      if (options_.progress) options_.progress(job.module, double(done) / double(report_.parameters));
      TRY_VOID(job.kind == TargetKind::affine ? write_affine(job, writer) : write_dense(job, writer));
      job.matrix.reset();
      done += static_cast<uint64_t>(element_count(job.info.shape));
    }
    TRY_VOID(writer.write_index(report_.parameters));
    TRY_VOID(write_file(directory + "/config.json", layout_.config(formats()).dump(4) + "\n"));
    TRY_VOID(write_side_files(directory));
    if (options_.progress) options_.progress("", 1);
    report_.files = writer.files();
    report_.bytes = writer.bytes();
    if (stats_.minmax_error > 0) report_.error_ratio = stats_.error / stats_.minmax_error;
    if (stats_.energy > 0) report_.relative_error = stats_.error / stats_.energy;
    return report_;
  }

 private:
  Error fail(const TensorConversion& job, ErrorKind kind, const std::string& why) const {
    return make_error(kind, "{}: tensor \"{}\" {}", job.info.file, shown(job.info.name), why);
  }

  Result<TensorConversion> plan_tensor(const TensorInfo& info) {
    TensorConversion job{info, info.name, "", options_.dense};
    const bool weight = info.name.ends_with(".weight");
    if (weight) job.module.resize(info.name.size() - std::string_view(".weight").size());
    TRY(job.out_name, layout_.name(info.name));
    job.shape = layout_.shape(info.name, info.shape);
    if (layout_.stays_f32(info.name)) job.kind = TargetKind::keep;
    const auto& shape = info.shape;
    const bool experts = shape.size() == 3 && is_expert_module(job.module);
    if (!weight || (job.shape.size() != 2 && !experts)) return job;  // a convolution has three dimensions
    TRY(job.matrix, experts ? source_.take_matrices(info.name, shape[0], shape[1], shape[2])
                            : source_.take_matrix(info.name, shape[0], shape[1]));

    const QuantRule* rule = nullptr;
    for (size_t i = 0; i < options_.rules.size() && !rule; i++)
      if (glob_matches(options_.rules[i].pattern, job.module)) {
        rule = &options_.rules[i];
        rule_used_[i] = true;
      }
    Target target = rule ? rule->target : options_.fallback.value_or(Target{});
    if (!rule && target.kind == TargetKind::affine && is_router(job.module)) target.format = kRouterFormat;
    if (!rule && job.module.starts_with("mtp.")) target = Target{options_.dense, {}};
    if (target.kind == TargetKind::keep) return keep(std::move(job));
    job.kind = target.kind;
    if (target.kind != TargetKind::affine) return job;
    job.format = target.format;
    job.scale_kind = stored_kind(options_.dense);
    if (element_count(shape) > 0 && shape.back() % target.format.group == 0) return job;
    if (rule)
      return fail(
          job, ErrorKind::invalid,
          fmt::format("has {} columns, which groups of {} do not divide", shape.back(), target.format.group));
    job.kind = options_.dense;
    report_.warnings.push_back(fmt::format("{} stays dense: groups of {} do not divide its {} columns",
                                           job.module, target.format.group, shape.back()));
    return job;
  }

  Result<TensorConversion> keep(TensorConversion job) const {
    const WeightSource& source = *job.matrix;
    if (source.kind != WeightKind::affine) {
      job.kind = source.kind == WeightKind::f32   ? TargetKind::keep
                 : source.kind == WeightKind::f16 ? TargetKind::f16
                                                  : TargetKind::bf16;
      return job;
    }
    if (source.group < 32)
      return fail(
          job, ErrorKind::unsupported,
          fmt::format("cannot be kept: MLX has no groups of {}; give it another format", source.group));
    job.kind = TargetKind::affine;
    job.format = {source.bits, source.group};
    job.codes_kept = true;
    job.scale_kind = source.scale_type == ScaleType::f32   ? WeightKind::f32
                     : source.scale_type == ScaleType::f16 ? WeightKind::f16
                                                           : WeightKind::bf16;
    return job;
  }

  std::map<std::string, AffineFormat> formats() const {
    std::map<std::string, AffineFormat> out;
    for (const TensorConversion& job : jobs_)
      if (job.kind == TargetKind::affine) out[sibling(job, "")] = job.format;
    return out;
  }

  Result<void> write_dense(TensorConversion& job, ShardWriter& writer) {
    std::vector<float> values(static_cast<size_t>(element_count(job.info.shape)));
    if (job.matrix) {
      const WeightSource& m = *job.matrix;
      shared_threads().parallel_for(
          m.rows, std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, m.cols)),
          [&](int64_t begin, int64_t end) { read_values(m, begin, end - begin, &values[begin * m.cols]); });
    } else {
      TRY(const auto array, source_.take(job.info.name, job.info.shape));
      std::copy_n(array.data<float>(), values.size(), values.begin());
    }
    if (layout_.shifts(job.info.name) && job.info.norms == NormConvention::offset)
      for (float& v : values) v += 1;
    const auto kind = stored_kind(job.kind);
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(dense_size(kind)));
    if (!float_to_dense(kind, values.data(), static_cast<int64_t>(values.size()), bytes.data()))
      return fail(job, ErrorKind::invalid, fmt::format("has values that {} cannot hold", dtype_name(kind)));
    return writer.write(job.out_name, bytes.data(), bytes.size());
  }

  Result<void> write_affine(TensorConversion& job, ShardWriter& writer) {
    const WeightSource& m = *job.matrix;
    const int64_t groups = m.cols / job.format.group, scale_size = dense_size(job.scale_kind);
    const int64_t row_bytes = m.cols * job.format.bits / 8;
    std::vector<std::byte> codes(static_cast<size_t>(m.rows * row_bytes));
    std::vector<std::byte> scales(static_cast<size_t>(m.rows * groups * scale_size)), biases(scales.size());
    const int64_t grain = std::max<int64_t>(1, (1 << 15) / m.cols);
    std::vector<QuantizeStats> stats(static_cast<size_t>((m.rows + grain - 1) / grain));
    shared_threads().parallel_for(static_cast<int64_t>(stats.size()), 1, [&](int64_t begin, int64_t end) {
      std::vector<uint8_t> row(m.cols);
      for (int64_t part = begin; part < end; part++)
        for (int64_t r = part * grain; r < std::min(m.rows, (part + 1) * grain); r++) {
          std::byte *s = &scales[r * groups * scale_size], *b = &biases[r * groups * scale_size];
          job.codes_kept ? copy_row(m, r, job.scale_kind, row.data(), s, b, stats[part])
                         : quantise_row(m, r, job, row.data(), s, b, stats[part]);
          pack_codes(job.format.bits, row.data(), m.cols, &codes[r * row_bytes]);
        }
    });
    for (const QuantizeStats& s : stats) {
      if (!s.finite) return fail(job, ErrorKind::invalid, "has values or scales that are not finite");
      stats_.error += s.error;
      stats_.minmax_error += s.minmax_error;
      stats_.energy += s.energy;
    }
    TRY_VOID(writer.write(job.out_name, codes.data(), codes.size()));
    TRY_VOID(writer.write(sibling(job, ".scales"), scales.data(), scales.size()));
    return writer.write(sibling(job, ".biases"), biases.data(), biases.size());
  }

  static void quantise_row(const WeightSource& m, int64_t r, const TensorConversion& job, uint8_t* codes,
                           std::byte* scales, std::byte* biases, QuantizeStats& stats) {
    const int64_t groups = m.cols / job.format.group;
    std::vector<float> values(m.cols);
    std::vector<uint16_t> s(groups), b(groups);
    read_values(m, r, 1, values.data());
    quantize_row(values.data(), m.cols, job.format, job.scale_kind == WeightKind::f16, codes, s.data(),
                 b.data(), stats);
    std::memcpy(scales, s.data(), s.size() * 2);
    std::memcpy(biases, b.data(), b.size() * 2);
  }

  static void copy_row(const WeightSource& m, int64_t r, WeightKind scale_kind, uint8_t* codes,
                       std::byte* scales, std::byte* biases, QuantizeStats& stats) {
    const int64_t groups = m.cols / m.group;
    std::vector<float> s(groups), b(groups);
    m.read_affine(r, 1, codes, s.data(), b.data());
    if (m.symmetric)
      for (int64_t g = 0; g < groups; g++) b[g] = -static_cast<float>(m.zero_point) * s[g];
    for (float v : s) stats.finite &= std::isfinite(v);
    for (float v : b) stats.finite &= std::isfinite(v);
    stats.finite &= float_to_dense(scale_kind, s.data(), groups, scales) &&
                    float_to_dense(scale_kind, b.data(), groups, biases);
  }

  Result<void> write_side_files(const std::string& directory) {
    std::map<std::string, std::string> files = options_.side_files;
    for (const char* name : kSideFiles)
      if (auto text = source_.side_file(name)) files[name] = std::move(*text);
    for (const auto& [name, text] : files) TRY_VOID(write_file(directory + "/" + name, text));
    if (!files.contains("tokenizer.json") && !files.contains("tokenizer.model"))
      report_.warnings.push_back(
          fmt::format("{} has no tokenizer.json: put the original model's into the new directory before use",
                      source_.path()));
    return {};
  }

  Checkpoint& source_;
  const ConvertOptions& options_;
  const MlxLayout& layout_;
  std::vector<TensorConversion> jobs_;
  std::vector<bool> rule_used_;
  QuantizeStats stats_;
  ConvertReport report_;
};

}  // namespace

Result<ConvertReport> convert(const std::string& source_path, const ConvertOptions& options) {
  if (options.dense != TargetKind::bf16 && options.dense != TargetKind::f16)
    return make_error(ErrorKind::invalid, "dense weights are written as bf16 or f16");
  TRY(const auto source, Checkpoint::open(source_path));
  TRY(const auto layout, MlxLayout::make(source->config(), source->path(), options.dense));
  Converter converter(*source, options, layout);
  TRY_VOID(converter.plan());
  TRY(const auto output, OutputDirectory::make(options.output, source_path, options.force));
  TRY(auto report, converter.write(output->path()));
  TRY_VOID(output->publish());
  report.output = options.output;
  return report;
}

}  // namespace anabranch
