#include "checkpoint/convert.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>

#include "checkpoint/checkpoint.h"
#include "checkpoint/experts.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/mtp_head.h"
#include "checkpoint/names.h"
#include "checkpoint/output_directory.h"
#include "checkpoint/output_layout.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/shard_writer.h"
#include "checkpoint/tensor_conversion.h"
#include "checkpoint/write_format.h"

namespace anabranch {

namespace {

constexpr const char* kSideFiles[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "generation_config.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer.model",
    "tokenizer.model.v1",
    "tokenizer.model.v2",
    "tokenizer.model.v3",
    "tokenizer.model.v7",
    "tekken.json",
    "tiktoken.model",
    "hy.tiktoken",
};
// Each of these files is a vocabulary, alone or with the small files.
constexpr std::string_view kVocabularies[] = {"tokenizer.json", "tokenizer.model", "tekken.json",
                                              "tiktoken.model", "hy.tiktoken",     "vocab.json"};

class Converter {
 public:
  Converter(Checkpoint& source, const ConvertOptions& options, const OutputLayout& layout)
      : source_(source), options_(options), layout_(layout) {}

  Result<void> plan() {
    rule_used_.assign(options_.rules.size(), false);
    if (options_.fallback) TRY_VOID(layout_.check(*options_.fallback));
    for (const QuantRule& rule : options_.rules) TRY_VOID(layout_.check(rule.target));
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
    for (const TensorConversion& job : jobs_)
      report_.quantised += job.kind == TargetKind::affine || job.kind == TargetKind::fp8;
    return {};
  }

  void calibrate(const Importance& importance) {
    if (!importance.empty() && std::ranges::any_of(jobs_, [](const auto& j) {
          return j.matrix && j.matrix->kind == WeightKind::affine;
        }))
      report_.warnings.push_back(calibration_warning(source_.path()));
    for (TensorConversion& job : jobs_) {
      if (job.kind != TargetKind::affine || job.codes_kept) continue;
      job.importance = relative_importance(importance, job.info.name, job.info.shape.back());
      report_.calibrated += !job.importance.empty();
    }
  }

  Result<ConvertReport> write(const std::string& directory) {
    ShardWriter writer(directory, layout_.norm_format());
    std::vector<std::vector<Piece>> model, mtp;
    for (const TensorConversion& job : jobs_)
      (job.module.starts_with("mtp.") ? mtp : model).push_back(pieces_of(job));
    TRY_VOID(writer.add_files("model", model, options_.max_shard_bytes));
    TRY_VOID(writer.add_files("mtp", mtp, options_.max_shard_bytes));
    const auto matrices = targets();
    uint64_t done = 0;
    for (TensorConversion& job : jobs_) {
      if (options_.progress) options_.progress(job.module, double(done) / double(report_.parameters));
      const int shift = layout_.norm_shift(job.info.name, job.info.norms);
      TRY_VOID(write_tensor(job, shift, source_, writer, stats_));
      job.matrix.reset();
      done += static_cast<uint64_t>(element_count(job.info.shape));
    }
    TRY_VOID(writer.write_index(report_.parameters));
    TRY_VOID(write_file(directory + "/config.json", layout_.config(matrices).dump(4) + "\n"));
    TRY_VOID(write_side_files(directory));
    if (options_.progress) options_.progress("", 1);
    report_.files = writer.files();
    report_.bytes = writer.bytes();
    if (std::ranges::any_of(matrices, [](const auto& m) { return m.second.kind == TargetKind::affine; }))
      report_.error_ratio = stats_.minmax_error > 0 ? stats_.error / stats_.minmax_error : 1;
    if (stats_.energy > 0) report_.relative_error = stats_.error / stats_.energy;
    return report_;
  }

 private:
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
    const Target target = rule ? rule->target : layout_.default_target(job.module, options_.fallback);
    if (job.out_name.find('*') != std::string::npos && target.kind != TargetKind::fp8)
      return conversion_error(job, ErrorKind::unsupported, "holds experts, which can only be written as FP8");
    if (target.kind == TargetKind::keep) return keep(std::move(job));
    job.kind = target.kind;
    if (target.kind == TargetKind::fp8 && element_count(shape) == 0)
      return conversion_error(job, ErrorKind::invalid, "has no elements: FP8 has no blocks for it");
    if (target.kind != TargetKind::affine) return job;
    job.format = target.format;
    job.scale_kind = stored_kind(options_.dense);
    if (element_count(shape) > 0 && shape.back() % target.format.group == 0) return job;
    if (rule)
      return conversion_error(
          job, ErrorKind::invalid,
          fmt::format("has {} columns, which groups of {} do not divide", shape.back(), target.format.group));
    job.kind = options_.dense;
    report_.warnings.push_back(fmt::format("{} stays dense: groups of {} do not divide its {} columns",
                                           job.module, target.format.group, shape.back()));
    return job;
  }

  Result<TensorConversion> keep(TensorConversion job) const {
    const WeightSource& source = *job.matrix;
    if (source.kind == WeightKind::table || source.kind == WeightKind::fp8)
      return conversion_error(job, ErrorKind::unsupported,
                              "cannot be kept: its codes are not affine; give it another format");
    if (!is_coded(source.kind)) {
      job.kind = source.kind == WeightKind::f32   ? TargetKind::keep
                 : source.kind == WeightKind::f16 ? TargetKind::f16
                                                  : TargetKind::bf16;
      return job;
    }
    if (source.group < 32)
      return conversion_error(
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

  std::map<std::string, Target> targets() const {
    std::map<std::string, Target> out;
    for (const TensorConversion& job : jobs_)
      if (job.matrix) out[module_of(job)] = {job.kind, job.format};
    return out;
  }

  Result<void> write_side_files(const std::string& directory) {
    std::map<std::string, std::string> files = options_.side_files;
    for (const char* name : kSideFiles)
      if (auto text = source_.side_file(name)) files[name] = std::move(*text);
    if (auto text = source_.side_file(kPoolingFile)) {
      std::error_code failed;  // the write below reports the error
      const std::filesystem::path file = std::filesystem::path(directory) / kPoolingFile;
      std::filesystem::create_directory(file.parent_path(), failed);
      files[std::string(kPoolingFile)] = std::move(*text);
    }
    for (const auto& [name, text] : files) TRY_VOID(write_file(directory + "/" + name, text));
    const auto is_vocabulary = [](const auto& file) {
      return std::ranges::any_of(kVocabularies,
                                 [&](std::string_view name) { return file.first.starts_with(name); });
    };
    if (std::ranges::none_of(files, is_vocabulary))
      report_.warnings.push_back(
          fmt::format("{} has no tokenizer.json and no other vocabulary: put the original model's into the "
                      "new directory before use",
                      source_.path()));
    return {};
  }

  Checkpoint& source_;
  const ConvertOptions& options_;
  const OutputLayout& layout_;
  std::vector<TensorConversion> jobs_;
  std::vector<bool> rule_used_;
  QuantizeStats stats_;
  ConvertReport report_;
};

}  // namespace

Result<ConvertReport> convert_to_directory(Checkpoint& source, const std::string& source_path,
                                           const ConvertOptions& options) {
  if (options.dense != TargetKind::bf16 && options.dense != TargetKind::f16)
    return make_error(ErrorKind::invalid, "dense weights are written as bf16 or f16");
  TRY(const auto layout, make_layout(options, source.config(), source.path()));
  Converter converter(source, options, *layout);
  TRY_VOID(converter.plan());
  TRY(const auto output, OutputDirectory::make(options.output, source_path, options.force));
  if (options.calibrate) {
    TRY(const Importance importance, options.calibrate());
    converter.calibrate(importance);
  }
  TRY(auto report, converter.write(output->path()));
  TRY_VOID(output->publish());
  report.output = options.output;
  return report;
}

Result<ConvertReport> convert(const std::string& source_path, const ConvertOptions& options) {
  TRY(const auto source, Checkpoint::open(source_path));
  return write_format(options.format).write(*source, source_path, options);
}

}  // namespace anabranch
