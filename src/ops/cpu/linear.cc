#include "ops/cpu/linear.h"

#include <algorithm>

#include "ops/cpu/device.h"
#include "ops/cpu/packed.h"

namespace anabranch::ops::cpu {
namespace {

// Below these sizes a fork-join costs more than it saves.
constexpr int64_t kParallelBytes = 96 << 10, kParallelElements = 32 << 10;
constexpr int64_t kUnitBytes = 16 << 10;
// From this many full tiles on, unpacking a panel first pays; sooner where a code's bits lie in two places.
constexpr int64_t kUnpackTiles = 4, kUnpackSplitTiles = 2;
// Activations that meet one panel after another: they should stay in half an L2 cache.
constexpr int64_t kTileBlockBytes = 192 << 10;

bool uses_int8(const CpuDevice& device, const PackedMatrix& m) {
  return m.kind == PackedMatrix::affine && !device.precise();
}

// Activations as one kind of weight wants them, laid out in one piece of scratch.
struct Prepared {
  Activations a;
  bool int8 = false;
};

size_t aligned(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Sizes, then pointers, of the parts of `p` at `base`; returns the bytes they take.
size_t lay_out(Prepared& p, uint8_t* base) {
  Activations& a = p.a;
  size_t at = 0;
  const auto take = [&](int64_t bytes) {
    uint8_t* start = base + at;
    at += aligned(static_cast<size_t>(bytes));
    return start;
  };
  const int64_t sums = a.group > 0 ? a.rows * (a.padded_cols / a.group) : 0;
  a.sum = reinterpret_cast<float*>(take(sums * 4));
  if (p.int8) {
    a.q = reinterpret_cast<int8_t*>(take(a.rows * a.padded_cols));
    a.scale = reinterpret_cast<float*>(take(a.rows * (a.padded_cols / a.x_group) * 4));
    a.int_sum = reinterpret_cast<int32_t*>(take(sums * 4));
  } else {
    a.x = reinterpret_cast<float*>(take(a.rows * a.padded_cols * 4));
  }
  return at;
}

// One op: a product of x (normalised first, perhaps) with each weight, and what is done to it while it is in
// the cache.
struct Job {
  CpuDevice& device;
  const float* x = nullptr;
  int64_t rows = 0, cols = 0;
  const float* norm = nullptr;  // RMSNorm's weight
  float eps = 0;
  std::span<const Weight* const> weights;
  float* y[kMaxLinearWeights] = {};
  const float* residual = nullptr;  // added to y[0]
  bool swiglu = false;              // y[0] = silu(product 0) * product 1, which has no y
};

// Activations in each of the forms that the weights want: int8 or not, by group; all in tiles of one height.
struct Inputs {
  int64_t tile_rows = 0;
  Prepared forms[kMaxLinearWeights];
  size_t count = 0;
  const Prepared* of[kMaxLinearWeights] = {};  // for each weight
};

int64_t tiles_of(int64_t rows, int64_t tile_rows) {
  return (rows + tile_rows - 1) / tile_rows;
}

// Tall tiles where they save one: decoding the weights for a last tile of one row costs as much as for four.
int64_t choose_tile_rows(const Job& job) {
  const CpuKernels& k = job.device.kernels();
  const bool few = job.rows < kUnpackTiles * k.tile_rows,
             fewer = tiles_of(job.rows, k.tall_rows) < tiles_of(job.rows, k.tile_rows);
  for (const Weight* w : job.weights)
    if (!uses_int8(job.device, packed(*w))) return k.tile_rows;
  return few && fewer ? k.tall_rows : k.tile_rows;
}

bool pays_to_unpack(const CpuKernels& kernels, const Prepared& form, const PackedMatrix& m) {
  const int64_t height = kernels.tile_rows;
  const bool split = form.int8 && (m.bits == 3 || m.bits == 5 || m.bits == 6);
  return form.a.tile == height && form.a.rows / height >= (split ? kUnpackSplitTiles : kUnpackTiles);
}

void list_forms(const Job& job, Inputs& in) {
  in.tile_rows = choose_tile_rows(job);
  for (size_t i = 0; i < job.weights.size(); i++) {
    const PackedMatrix& m = packed(*job.weights[i]);
    const bool int8 = uses_int8(job.device, m);
    const auto same = [&](const Prepared& p) {
      return p.int8 == int8 && p.a.group == m.group && p.a.padded_cols == m.padded_cols;
    };
    Prepared* form = std::find_if(in.forms, in.forms + in.count, same);
    in.of[i] = form;
    if (form != in.forms + in.count) continue;
    in.count++;
    form->int8 = int8;
    form->a.rows = job.rows;
    form->a.cols = m.cols;
    form->a.padded_cols = m.padded_cols;
    form->a.tile = in.tile_rows;
    form->a.group = m.group;
    form->a.x_group = std::max(m.group, 32);
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
    (in.forms[i].int8 ? k.prepare_int8 : k.prepare_f32)(x, in.forms[i].a, begin, end);
}

void prepare(const Job& job, Inputs& in) {
  list_forms(job, in);
  size_t bytes = 0;
  for (size_t i = 0; i < in.count; i++) bytes += lay_out(in.forms[i], nullptr);
  auto* base = static_cast<uint8_t*>(thread_scratch(0, bytes));
  for (size_t i = 0; i < in.count; i++) base += lay_out(in.forms[i], base);
  if (job.rows * job.cols < kParallelElements) return prepare_rows(job, in, 0, job.rows);
  const int64_t height = in.tile_rows, tiles = tiles_of(job.rows, height);
  const int64_t grain = std::max<int64_t>(1, kParallelElements / 4 / (height * job.cols));
  const auto body = [&](int64_t begin, int64_t end) {
    prepare_rows(job, in, begin * height, std::min(job.rows, end * height));
  };
  job.device.threads().parallel_for(tiles, grain, body);
}

// The work of all weights as one list of units: a block of panels times a block of tiles, the panels running
// faster.
struct Plan {
  struct Part {
    LinearTask task;
    bool int8;
    int64_t panel_step, tile_step, panel_blocks, tile_blocks, first_unit;
  };
  Part parts[kMaxLinearWeights];
  size_t count = 0;
  int64_t units = 0;
  int64_t bytes = 0;
};

// About 16 units a thread, so that a thread that is held up does not hold up the others for long; but none so
// small that handing it out takes longer than doing it.
int64_t panel_step(int threads, const PackedMatrix& m, const LinearTask& task, int64_t tile_blocks) {
  const int64_t units = std::max<int64_t>(1, threads * 16 / tile_blocks);
  const int64_t least = task.unpack ? 2 : (kUnitBytes + m.panel_bytes - 1) / m.panel_bytes;
  const int64_t step = std::max(least, std::min<int64_t>(m.panels() / units, 64));
  return task.unpack ? (step + 1) / 2 * 2 : step;  // unpacked panels may go in pairs
}

Plan::Part make_part(CpuDevice& device, const PackedMatrix& m, const Prepared& form, float* y) {
  const int64_t tile_rows = form.a.tile, tiles = tiles_of(form.a.rows, tile_rows);
  Plan::Part part;
  part.int8 = form.int8;
  part.task = {};
  part.task.weight = &m;
  part.task.input = &form.a;
  part.task.y = y;
  part.task.y_stride = m.rows;
  part.task.panel_end = m.panels();
  part.task.tile_end = tiles;
  part.task.unpack = pays_to_unpack(device.kernels(), form, m);
  const int64_t tile_bytes = tile_rows * m.padded_cols * (form.int8 ? 1 : 4);
  const int64_t block = std::max(kTileBlockBytes / tile_bytes, kUnpackTiles);
  part.tile_step = part.task.unpack ? std::min(block, tiles) : tiles;
  part.tile_blocks = (tiles + part.tile_step - 1) / part.tile_step;
  part.panel_step = panel_step(device.threads().size(), m, part.task, part.tile_blocks);
  part.panel_blocks = (m.panels() + part.panel_step - 1) / part.panel_step;
  return part;
}

Plan make_plan(const Job& job, const Inputs& in) {
  Plan plan;
  plan.count = job.swiglu ? 1 : job.weights.size();
  for (size_t i = 0; i < plan.count; i++) {
    const PackedMatrix& m = packed(*job.weights[i]);
    Plan::Part& part = plan.parts[i];
    part = make_part(job.device, m, *in.of[i], job.y[i]);
    part.first_unit = plan.units;
    plan.units += part.panel_blocks * part.tile_blocks;
    plan.bytes += m.panels() * m.panel_bytes * part.task.tile_end;
  }
  return plan;
}

void run_task(const CpuKernels& k, LinearTask& task, bool int8) {
  if (task.unpack)
    task.scratch = thread_scratch(
        1, static_cast<size_t>(k.linear_scratch_bytes(*task.weight, task.tile_end - task.tile_begin)));
  (int8 ? k.linear_int8 : k.linear_f32)(task);
}

// y += residual, where the task has just written.
void add_residual(const Job& job, const LinearTask& task, int64_t row_begin, int64_t row_end) {
  const int64_t first = task.panel_begin * kPanelRows,
                count = std::min(task.panel_end * kPanelRows, task.weight->rows) - first;
  for (int64_t r = row_begin; r < row_end; r++) {
    float* y = task.y + r * task.y_stride + first;
    job.device.kernels().add(job.residual + r * task.y_stride + first, y, y, count);
  }
}

// The same block of the second product, into scratch; then y = silu(y) * it.
void apply_up(const Job& job, const Inputs& in, const LinearTask& gate, int64_t row_begin, int64_t row_end) {
  const int64_t first = gate.panel_begin * kPanelRows,
                count = std::min(gate.panel_end * kPanelRows, gate.weight->rows) - first;
  auto* block = static_cast<float*>(
      thread_scratch(2, static_cast<size_t>((row_end - row_begin) * count) * sizeof(float)));
  LinearTask up = gate;
  up.weight = &packed(*job.weights[1]);
  up.input = &in.of[1]->a;
  up.y = block - (row_begin * count + first);
  up.y_stride = count;
  run_task(job.device.kernels(), up, in.of[1]->int8);
  for (int64_t r = row_begin; r < row_end; r++) {
    float* y = gate.y + r * gate.y_stride + first;
    job.device.kernels().swiglu(y, block + (r - row_begin) * count, y, count);
  }
}

void run_unit(const Job& job, const Inputs& in, const Plan& plan, int64_t unit) {
  size_t i = plan.count - 1;
  while (plan.parts[i].first_unit > unit) i--;
  const Plan::Part& part = plan.parts[i];
  const int64_t local = unit - part.first_unit, height = in.tile_rows;
  LinearTask task = part.task;
  task.panel_begin = local % part.panel_blocks * part.panel_step;
  task.panel_end = std::min(part.task.panel_end, task.panel_begin + part.panel_step);
  task.tile_begin = local / part.panel_blocks * part.tile_step;
  task.tile_end = std::min(part.task.tile_end, task.tile_begin + part.tile_step);
  run_task(job.device.kernels(), task, part.int8);
  const int64_t row_begin = task.tile_begin * height, row_end = std::min(job.rows, task.tile_end * height);
  if (job.residual) add_residual(job, task, row_begin, row_end);
  if (job.swiglu) apply_up(job, in, task, row_begin, row_end);
}

void run(const Job& job) {
  if (job.rows == 0 || job.weights.empty()) return;
  Inputs in;
  prepare(job, in);
  const Plan plan = make_plan(job, in);
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) run_unit(job, in, plan, u);
  };
  plan.bytes < kParallelBytes ? body(0, plan.units) : job.device.threads().parallel_for(plan.units, 1, body);
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

MatmulInput linear_swiglu(const Tensor& x, const Weight& gate, const Weight& up, const RowNorm& norm) {
  const Weight* both[] = {&gate, &up};
  Job job = make_job(x, both, &norm);
  job.swiglu = true;
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
