// Writes a model as one GGUF file: metadata and directory first, then the tensors, a block of rows at a time.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "checkpoint/dense.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf_encode.h"
#include "checkpoint/gguf_families.h"
#include "checkpoint/gguf_mix.h"
#include "checkpoint/gguf_names.h"
#include "checkpoint/names.h"
#include "checkpoint/output_file.h"
#include "checkpoint/quantize.h"
#include "checkpoint/store.h"
#include "checkpoint/write_format.h"

namespace anabranch {

namespace {

constexpr uint64_t kAlignment = 32;
constexpr int64_t kBlockElements = 1 << 20;  // weights in memory

uint64_t aligned(uint64_t at) {
  return (at + kAlignment - 1) / kAlignment * kAlignment;
}

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A tensor of the file.
struct Job {
  TensorInfo info;  // of the source
  std::string name;
  const GgufType* type;
  GgufChange change;
  std::optional<WeightSource> matrix;  // nullopt: a vector or a convolution
  std::vector<float> values;           // its values, if it is not a tensor of the source
  std::vector<float> importance;       // of the columns; empty: all count alike
  uint64_t offset = 0, bytes = 0;      // from the beginning of the data
};

Error job_error(const Job& job, ErrorKind kind, std::string_view why) {
  return make_error(kind, "{}: tensor \"{}\" {}", job.info.file, shown(job.info.name), why);
}

int64_t row_bytes(const Job& job) {
  return job.change.shape.back() / job.type->block * job.type->bytes;
}

template <class T>
void gather(const std::vector<int64_t>& order, std::vector<T>& values, std::vector<T>& scratch) {
  if (order.empty() || values.empty()) return;
  scratch = values;
  for (size_t i = 0; i < order.size(); i++) values[i] = scratch[static_cast<size_t>(order[i])];
}

// Encodes rows of one tensor.
class RowEncoder {
 public:
  explicit RowEncoder(const Job& job)
      : job_(job), cols_(job.change.shape.back()), encoder_(find_gguf_encoder(job.type->name)) {
    importance_ =
        job.importance.empty() ? std::vector<float>(static_cast<size_t>(cols_), 1.0f) : job.importance;
  }

  void encode(int64_t row, std::byte* out, QuantizeStats& stats) {
    values_.resize(static_cast<size_t>(cols_));
    read_values(*job_.matrix, job_.change.rows.empty() ? row : job_.change.rows[row], 1, values_.data());
    gather(job_.change.columns, values_, scratch_);
    if (!std::ranges::all_of(values_, [](float v) { return std::isfinite(v); })) {
      stats.finite = false;
    } else if (!encoder_) {
      stats.finite &= float_to_dense(job_.type->kind, values_.data(), cols_, out);
    } else {
      encode_blocks(out);
      measure(out, stats);
    }
  }

 private:
  void encode_blocks(std::byte* out) const {
    auto* block = reinterpret_cast<uint8_t*>(out);
    for (int64_t at = 0; at < cols_; at += job_.type->block, block += job_.type->bytes)
      encoder_->encode(&values_[static_cast<size_t>(at)], &importance_[static_cast<size_t>(at)], block);
  }

  // The values that a reader decodes from the blocks.
  void measure(const std::byte* blocks, QuantizeStats& stats) {
    scratch_.resize(values_.size());
    read_values(gguf_source(*job_.type, blocks, 1, cols_, nullptr), 0, 1, scratch_.data());
    double error = 0;
    for (size_t i = 0; i < values_.size(); i++) {
      const double e = double{values_[i]} - scratch_[i];
      error += importance_[i] * e * e;
      stats.energy += double{importance_[i]} * values_[i] * values_[i];
    }
    stats.error += error;
    stats.finite &= std::isfinite(error);
  }

  const Job& job_;
  int64_t cols_;
  const GgufEncoder* encoder_;
  std::vector<float> importance_, values_, scratch_;
};

class GgufConversion {
 public:
  GgufConversion(Checkpoint& source, const ConvertOptions& options, const GgufMix& mix, GgufModel model)
      : source_(source), options_(options), mix_(mix), model_(std::move(model)) {}

  Result<void> plan() {
    const auto tensors = source_.tensors();
    has_head_ = std::ranges::any_of(tensors, [](const auto& t) { return t.name == "lm_head.weight"; });
    for (const TensorInfo& info : tensors) {
      TRY(auto job, plan_tensor(info));
      report_.source_bytes += info.bytes;
      report_.parameters += static_cast<uint64_t>(elements_of(job));
      jobs_.push_back(std::move(job));
    }
    if (!model_.rope_factors.empty()) {
      Job job{{}, kRopeFactors, find_gguf_type("F32"), {}, {}, model_.rope_factors, {}};
      job.change.shape = {static_cast<int64_t>(model_.rope_factors.size())};
      jobs_.push_back(std::move(job));
    }
    std::ranges::sort(jobs_, natural_less, &Job::name);
    report_.tensors = static_cast<int>(jobs_.size());
    report_.warnings = model_.warnings;
    if (!options_.gguf_keys.has("tokenizer.ggml.model"))
      report_.warnings.push_back(source_.path() +
                                 " has no tokenizer: llama.cpp does not load a file without one");
    return {};
  }

  void calibrate(const Importance& importance) {
    bool coded = false;
    for (Job& job : jobs_) {
      if (!job.matrix) continue;
      auto columns = relative_importance(importance, job.info.name, job.info.shape.back());
      if (columns.empty()) continue;
      job.importance = std::move(columns.front());
      gather(job.change.columns, job.importance, scratch_);
      coded = coded || is_coded(job.matrix->kind);
    }
    calibrated_ = !importance.empty();
    entries_ = importance.size();
    if (coded) report_.warnings.push_back(calibration_warning(source_.path()));
  }

  Result<ConvertReport> write(OutputFile& file) {
    choose_types();
    const std::string header = make_header();
    TRY_VOID(file.write(0, header.data(), header.size()));
    double done = 0;
    for (Job& job : jobs_) {
      if (options_.progress) options_.progress(job.name, done / double(report_.parameters));
      TRY_VOID(job.matrix ? write_matrix(job, header.size(), file) : write_vector(job, header.size(), file));
      job.matrix.reset();
      done += static_cast<double>(elements_of(job));
    }
    if (options_.progress) options_.progress("", 1);
    const Job& last = jobs_.back();
    report_.bytes = header.size() + aligned(last.offset + last.bytes);
    const std::string padding(report_.bytes - header.size() - last.offset - last.bytes, '\0');
    TRY_VOID(file.write(report_.bytes - padding.size(), padding.data(), padding.size()));
    report_.files = 1;
    if (stats_.energy > 0) report_.relative_error = stats_.error / stats_.energy;
    return report_;
  }

 private:
  static int64_t elements_of(const Job& job) {
    const auto [rows, cols] = rows_and_cols(job.change.shape);
    return rows * cols;
  }

  Result<Job> plan_tensor(const TensorInfo& info) {
    Job job{info, gguf_name(model_.arch, model_.layers, info.name), find_gguf_type("F32"), {}, {}, {}, {}};
    if (job.name.empty())
      return job_error(job, ErrorKind::unsupported,
                       fmt::format("has no place in a GGUF file of {}", model_.arch_name));
    TRY(job.change, gguf_change(model_, info));
    if (elements_of(job) == 0) return job_error(job, ErrorKind::invalid, "has no elements");
    const bool matrix =
        info.shape.size() == 2 && job.name.ends_with(".weight") && !job.name.ends_with(".ssm_conv1d.weight");
    if (matrix) {
      TRY(job.matrix, source_.take_matrix(info.name, info.shape[0], info.shape[1]));
    }
    return job;
  }

  void choose_types() {
    for (Job& job : jobs_) {
      if (job.matrix) {
        const auto layer = split_gguf_layer(job.name);
        GgufMatrix m;
        m.name = job.name;
        m.cols = job.change.shape.back();
        m.layer = layer ? layer->first : -1;
        m.layers = model_.layers + model_.mtp_layers;
        m.head = job.name == "output.weight" || (!has_head_ && job.name == "token_embd.weight");
        m.predicts = layer && layer->first >= model_.layers;
        m.sharing = model_.heads / model_.kv_heads;
        m.calibrated = calibrated_;
        job.type = &choose_gguf_type(mix_, m);
        const bool coded = is_coded(job.type->kind);
        report_.quantised += coded;
        report_.calibrated += coded && !job.importance.empty();
      }
      job.bytes = static_cast<uint64_t>(elements_of(job) / job.change.shape.back() * row_bytes(job));
    }
  }

  std::string make_header() {
    GgufKeys keys = model_.keys;
    keys.u32("general.file_type", mix_.file_type).u32("general.quantization_version", 2);
    if (calibrated_)
      keys.text("quantize.imatrix.dataset", options_.calibration_text)
          .u32("quantize.imatrix.entries_count", entries_);
    for (const Job& job : jobs_)
      if (job.name == "token_embd.weight")
        keys.u32(fmt::format("{}.vocab_size", model_.arch_name), static_cast<uint64_t>(job.change.shape[0]));
    keys.add(options_.gguf_keys).text("general.name", source_.name());
    std::string out = "GGUF";
    append<uint32_t>(out, 3);
    append<uint64_t>(out, jobs_.size());
    append<uint64_t>(out, keys.count());
    out += keys.bytes();
    uint64_t at = 0;
    for (Job& job : jobs_) {
      job.offset = at;
      at = aligned(at + job.bytes);
      append<uint64_t>(out, job.name.size());
      out += job.name;
      append<uint32_t>(out, static_cast<uint32_t>(job.change.shape.size()));
      for (size_t d = job.change.shape.size(); d-- > 0;)
        append(out, static_cast<uint64_t>(job.change.shape[d]));  // the fastest dimension first
      append<uint32_t>(out, job.type->id);
      append<uint64_t>(out, job.offset);
    }
    out.resize(aligned(out.size()));
    return out;
  }

  Result<void> write_vector(const Job& job, uint64_t start, OutputFile& file) {
    std::vector<float> values = job.values;
    if (values.empty()) {
      TRY(const auto array, source_.take(job.info.name, job.info.shape));
      values.assign(array.data<float>(), array.data<float>() + array.size());
    }
    if (const auto& rows = job.change.rows; !rows.empty()) {
      const std::vector<float> before = values;
      const size_t width = values.size() / rows.size();
      for (size_t i = 0; i < rows.size(); i++)
        std::copy_n(&before[static_cast<size_t>(rows[i]) * width], width, &values[i * width]);
    }
    for (float& v : values) {
      v = job.change.is_decay ? -std::exp(v) : v + job.change.add;
      if (!std::isfinite(v)) return job_error(job, ErrorKind::invalid, "has values that are not finite");
    }
    return file.write(start + job.offset, values.data(), values.size() * sizeof(float));
  }

  Result<void> write_matrix(const Job& job, uint64_t start, OutputFile& file) {
    const int64_t rows = job.change.shape[0], cols = job.change.shape[1], bytes = row_bytes(job);
    const int64_t block = std::max<int64_t>(1, kBlockElements / cols);
    const int64_t grain = std::max<int64_t>(1, (1 << 15) / cols);
    for (int64_t first = 0; first < rows; first += block) {
      const int64_t count = std::min(block, rows - first);
      std::vector<std::byte> out(static_cast<size_t>(count * bytes));
      std::vector<QuantizeStats> parts(static_cast<size_t>((count + grain - 1) / grain));
      shared_threads().parallel_for(static_cast<int64_t>(parts.size()), 1, [&](int64_t begin, int64_t end) {
        RowEncoder encoder(job);
        for (int64_t part = begin; part < end; part++)
          for (int64_t r = part * grain; r < std::min(count, (part + 1) * grain); r++)
            encoder.encode(first + r, &out[static_cast<size_t>(r * bytes)], parts[part]);
      });
      for (const QuantizeStats& part : parts) {
        if (!part.finite)
          return job_error(
              job, ErrorKind::invalid,
              fmt::format("has values that are not finite, or that {} cannot hold", job.type->name));
        stats_.error += part.error;
        stats_.energy += part.energy;
      }
      TRY_VOID(file.write(start + job.offset + static_cast<uint64_t>(first * bytes), out.data(), out.size()));
      source_.release_pages();
    }
    return {};
  }

  Checkpoint& source_;
  const ConvertOptions& options_;
  const GgufMix& mix_;
  GgufModel model_;
  std::vector<Job> jobs_;
  std::vector<float> scratch_;
  bool has_head_ = false, calibrated_ = false;
  uint64_t entries_ = 0;  // matrices with importance
  QuantizeStats stats_;
  ConvertReport report_;
};

}  // namespace

Result<ConvertReport> convert_to_gguf(Checkpoint& source, const std::string& source_path,
                                      const ConvertOptions& options) {
  const auto mixes = gguf_mixes();
  const auto mix = std::ranges::find(mixes, write_format(options.format).name, &GgufMix::name);
  CHECK(mix != mixes.end());
  TRY(auto model, describe_gguf_model(source));
  GgufConversion conversion(source, options, *mix, std::move(model));
  TRY_VOID(conversion.plan());
  TRY(const auto file, OutputFile::make(options.output, source_path, "GGUF", options.force));
  if (options.calibrate) {
    TRY(const Importance importance, options.calibrate());
    conversion.calibrate(importance);
  }
  TRY(auto report, conversion.write(*file));
  TRY_VOID(file->publish());
  report.output = options.output;
  return report;
}

}  // namespace anabranch
