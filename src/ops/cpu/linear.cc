#include "ops/cpu/linear.h"

#include <algorithm>
#include <optional>

#include "ops/cpu/device.h"
#include "ops/cpu/linear_parts.h"
#include "ops/cpu/packed.h"

namespace anabranch::ops::cpu {
namespace {

// Below these sizes a fork-join costs more than it saves.
constexpr int64_t kParallelBytes = 96 << 10, kParallelElements = 32 << 10;

// One op: products of x (optionally normalised first) with each weight, and the operations on a result while
// it is in the cache.
struct Job {
  CpuDevice& device;
  const float* x = nullptr;
  int64_t rows = 0, cols = 0;
  const float* norm = nullptr;  // RMSNorm's weight
  float eps = 0;
  std::span<const Weight* const> weights;
  float* y[kMaxLinearWeights] = {};
  const float* residual = nullptr;     // added to y[0]
  std::optional<Activation> glu = {};  // y[0] = activation(product 0) * product 1; product 1 has no y
};

// Activations in every format that the weights need: int8 or not, by group; all in tiles of one height.
struct Inputs {
  int64_t tile_rows = 0;
  Prepared prepared[kMaxLinearWeights];
  size_t count = 0;
  const Prepared* of[kMaxLinearWeights] = {};  // for each weight
};

// Whether all weights satisfy a condition of linear_parts.h.
bool all_weights(const Job& job, bool (*condition)(const CpuDevice&, const PackedMatrix&)) {
  return std::ranges::all_of(job.weights, [&](const Weight* w) { return condition(job.device, packed(*w)); });
}

void list_forms(const Job& job, Inputs& in) {
  in.tile_rows = choose_tile_rows(job.device.kernels(), job.rows, all_weights(job, uses_int8),
                                  all_weights(job, suits_matrix));
  for (size_t i = 0; i < job.weights.size(); i++) {
    const PackedMatrix& m = packed(*job.weights[i]);
    const auto same = [&](const Prepared& p) {
      return p.int8 == uses_int8(job.device, m) && p.a.group == m.group && p.a.padded_cols == m.padded_cols;
    };
    Prepared* input = std::find_if(in.prepared, in.prepared + in.count, same);
    in.of[i] = input;
    if (input != in.prepared + in.count) continue;
    in.count++;
    *input = make_prepared(job.device, m, job.rows, in.tile_rows);
  }
}

void prepare_rows(const Job& job, const Inputs& in, int64_t begin, int64_t end) {
  const CpuKernels& k = job.device.kernels();
  const float* x = job.x;
  if (job.norm) {
    auto* rows =
        static_cast<float*>(thread_scratch(2, static_cast<size_t>((end - begin) * job.cols) * sizeof(float)));
    k.rms_norm(x + begin * job.cols, job.norm, job.eps, rows, end - begin, job.cols);
    x = rows - begin * job.cols;
  }
  for (size_t i = 0; i < in.count; i++)
    (in.prepared[i].int8 ? k.prepare_int8 : k.prepare_f32)(x, in.prepared[i].a, begin, end);
}

void prepare(const Job& job, Inputs& in) {
  list_forms(job, in);
  size_t bytes = 0;
  for (size_t i = 0; i < in.count; i++) bytes += lay_out(in.prepared[i], nullptr);
  auto* base = static_cast<uint8_t*>(thread_scratch(0, bytes));
  for (size_t i = 0; i < in.count; i++) base += lay_out(in.prepared[i], base);
  if (job.rows * job.cols < kParallelElements) return prepare_rows(job, in, 0, job.rows);
  const int64_t height = in.tile_rows, tiles = tiles_of(job.rows, height);
  const int64_t grain = std::max<int64_t>(1, kParallelElements / 4 / (height * job.cols));
  const auto body = [&](int64_t begin, int64_t end) {
    prepare_rows(job, in, begin * height, std::min(job.rows, end * height));
  };
  job.device.threads().parallel_for(tiles, grain, body);
}

// The work for all weights as one list of units.
struct WorkList {
  ProductPart parts[kMaxLinearWeights];
  size_t count = 0;
  int64_t units = 0;
  int64_t bytes = 0;
};

WorkList make_work_list(const Job& job, const Inputs& in) {
  WorkList work;
  work.count = job.glu ? 1 : job.weights.size();
  for (size_t i = 0; i < work.count; i++) {
    const PackedMatrix& m = packed(*job.weights[i]);
    ProductPart& part = work.parts[i];
    part = make_part(job.device, m, *in.of[i], job.y[i]);
    part.first_unit = work.units;
    work.units += part.units();
    work.bytes += m.panels() * m.panel_bytes * part.task.tile_end;
  }
  return work;
}

// Adds residual to the part of y that the task has just written.
void add_residual(const Job& job, const LinearTask& task, int64_t row_begin, int64_t row_end) {
  const int64_t first = task.panel_begin * kPanelRows,
                count = std::min(task.panel_end * kPanelRows, task.weight->rows) - first;
  for (int64_t r = row_begin; r < row_end; r++) {
    float* y = task.y + r * task.y_stride + first;
    job.device.kernels().add(job.residual + r * task.y_stride + first, y, y, count);
  }
}

void run_unit(const Job& job, const Inputs& in, const WorkList& work, int64_t unit) {
  size_t i = work.count - 1;
  while (work.parts[i].first_unit > unit) i--;
  const ProductPart& part = work.parts[i];
  const int64_t height = in.tile_rows;
  LinearTask task = part.unit(unit - part.first_unit);
  run_task(job.device.kernels(), task, part.int8);
  const int64_t row_begin = task.tile_begin * height, row_end = std::min(job.rows, task.tile_end * height);
  if (job.residual) add_residual(job, task, row_begin, row_end);
  if (job.glu)
    apply_up(job.device.kernels(), task, {packed(*job.weights[1]), *in.of[1]}, *job.glu, row_begin, row_end);
}

void run(const Job& job) {
  if (job.rows == 0 || job.weights.empty()) return;
  Inputs in;
  prepare(job, in);
  const WorkList work = make_work_list(job, in);
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) run_unit(job, in, work, u);
  };
  work.bytes < kParallelBytes ? body(0, work.units) : job.device.threads().parallel_for(work.units, 1, body);
}

Job make_job(const Tensor& x, std::span<const Weight* const> weights, const RowNorm* norm) {
  Job job{cpu_device(x)};
  job.x = x.data<float>();
  job.rows = x.shape(0);
  job.cols = x.shape(1);
  job.weights = weights;
  if (norm) {
    job.norm = norm->weight.data<float>();
    job.eps = norm->eps;
  }
  return job;
}

Tensor make_output(const Job& job, const Weight& weight) {
  return job.device.make({static_cast<int>(job.rows), static_cast<int>(weight.out_features())});
}

}  // namespace

std::vector<Tensor> linear(const MatmulInput& x, std::span<const Weight* const> weights,
                           const RowNorm* norm) {
  std::vector<Tensor> out;
  out.reserve(weights.size());
  Job job = make_job(x.values, weights, norm);
  for (size_t i = 0; i < weights.size(); i++) {
    out.push_back(make_output(job, *weights[i]));
    job.y[i] = out.back().data<float>();
  }
  run(job);
  return out;
}

Tensor linear_add(const MatmulInput& x, const Weight& weight, const Tensor& residual) {
  const Weight* one = &weight;
  Job job = make_job(x.values, std::span<const Weight* const>(&one, 1), nullptr);
  job.residual = residual.data<float>();
  Tensor y = make_output(job, weight);
  job.y[0] = y.data<float>();
  run(job);
  return y;
}

MatmulInput linear_swiglu(const Tensor& x, const Weight& gate, const Weight& up, const RowNorm& norm,
                          Activation activation) {
  const Weight* both[] = {&gate, &up};
  Job job = make_job(x, both, &norm);
  job.glu = activation;
  Tensor y = make_output(job, gate);
  job.y[0] = y.data<float>();
  run(job);
  return y;
}

Tensor embed(std::span<const int> ids, const Weight& table) {
  CpuDevice& device = cpu_device(table.device());
  const PackedMatrix& m = packed(table);
  Tensor out = device.make({static_cast<int>(ids.size()), static_cast<int>(m.cols)});
  float* y = out.data<float>();
  device.threads().parallel_for(static_cast<int64_t>(ids.size()), 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
      device.kernels().embed_row(m, ids[static_cast<size_t>(i)], y + i * m.cols);
  });
  return out;
}

}  // namespace anabranch::ops::cpu
