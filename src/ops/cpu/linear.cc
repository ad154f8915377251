#include "ops/cpu/linear.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "ops/cpu/array.h"
#include "ops/cpu/packed.h"

namespace anabranch::ops::cpu {
namespace {

// Below these sizes a fork-join costs more than it saves.
constexpr int64_t kParallelBytes = 96 << 10, kParallelElements = 32 << 10;
constexpr int64_t kUnitBytes = 16 << 10;
// From this many full tiles on, unpacking a panel first pays.
constexpr int64_t kUnpackTiles = 4;
// Activations that meet one panel after another: they should stay in half an L2 cache.
constexpr int64_t kTileBlockBytes = 192 << 10;

bool uses_int8(const PackedMatrix& m) {
  return m.kind == PackedMatrix::affine && !precise();
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

// One form per (int8 or not, group) that the weights want.
std::vector<Prepared> prepare(const float* x, int64_t rows, std::span<const Weight* const> weights,
                              std::vector<int>& which) {
  const CpuKernels& k = kernels();
  std::vector<Prepared> forms;
  for (const Weight* w : weights) {
    const PackedMatrix& m = packed(*w);
    const bool int8 = uses_int8(m);
    const auto same = [&](const Prepared& p) { return p.int8 == int8 && p.a.group == m.group; };
    auto found = std::find_if(forms.begin(), forms.end(), same);
    which.push_back(static_cast<int>(found - forms.begin()));
    if (found != forms.end()) continue;
    Prepared p;
    p.int8 = int8;
    p.a.rows = rows;
    p.a.cols = m.cols;
    p.a.padded_cols = m.padded_cols;
    p.a.tile = k.tile_rows;
    p.a.group = m.group;
    p.a.x_group = std::max(m.group, 32);
    forms.push_back(p);
  }
  size_t bytes = 0;
  for (Prepared& p : forms) bytes += lay_out(p, nullptr);
  auto* base = static_cast<uint8_t*>(thread_scratch(0, bytes));
  for (Prepared& p : forms) base += lay_out(p, base);
  const int64_t tiles = (rows + k.tile_rows - 1) / k.tile_rows;
  const int64_t per_tile = k.tile_rows * forms[0].a.cols;
  const int64_t grain = std::max<int64_t>(1, kParallelElements / 4 / per_tile);
  for (const Prepared& p : forms) {
    const auto body = [&](int64_t begin, int64_t end) {
      const int64_t first = begin * k.tile_rows, last = std::min(rows, end * k.tile_rows);
      (p.int8 ? k.prepare_int8 : k.prepare_f32)(x, p.a, first, last);
    };
    if (rows * p.a.cols < kParallelElements)
      body(0, tiles);
    else
      parallel_for(tiles, grain, body);
  }
  return forms;
}

// The work of all weights as one list of units: a block of panels times a block of tiles, the panels running
// faster.
struct Plan {
  struct Part {
    LinearTask task;
    bool int8;
    int64_t panel_step, tile_step, panel_blocks, tile_blocks, first_unit;
  };
  std::vector<Part> parts;
  int64_t units = 0;
  uint64_t bytes = 0;
};

// About 16 units a thread, so that a thread that is held up does not hold up the others for long; but none so small
// that handing it out takes longer than doing it.
int64_t panel_step(const PackedMatrix& m, const LinearTask& task, int64_t tile_blocks) {
  const int64_t units = std::max<int64_t>(1, thread_count() * 16 / tile_blocks);
  const int64_t least = task.unpack ? 2 : (kUnitBytes + m.panel_bytes - 1) / m.panel_bytes;
  const int64_t step = std::max(least, std::min<int64_t>(m.panels() / units, 64));
  return task.unpack ? (step + 1) / 2 * 2 : step;  // unpacked panels may go in pairs
}

Plan make_plan(std::span<const Weight* const> weights, const std::vector<Prepared>& forms,
               const std::vector<int>& which, std::vector<mx::array>& out) {
  const int64_t tile_rows = kernels().tile_rows;
  Plan plan;
  for (size_t i = 0; i < weights.size(); i++) {
    const PackedMatrix& m = packed(*weights[i]);
    const Prepared& form = forms[static_cast<size_t>(which[i])];
    const int64_t tiles = (form.a.rows + tile_rows - 1) / tile_rows, panels = m.panels();
    Plan::Part part;
    part.int8 = form.int8;
    part.task = {&m, &form.a, out[i].data<float>(), 0, panels, 0, tiles, false, nullptr};
    part.task.unpack = form.a.rows / tile_rows >= kUnpackTiles;
    const int64_t tile_bytes = tile_rows * m.padded_cols * (form.int8 ? 1 : 4);
    part.tile_step =
        part.task.unpack ? std::clamp<int64_t>(kTileBlockBytes / tile_bytes, kUnpackTiles, tiles) : tiles;
    part.tile_blocks = (tiles + part.tile_step - 1) / part.tile_step;
    part.panel_step = panel_step(m, part.task, part.tile_blocks);
    part.panel_blocks = (panels + part.panel_step - 1) / part.panel_step;
    part.first_unit = plan.units;
    plan.units += part.panel_blocks * part.tile_blocks;
    plan.bytes += static_cast<uint64_t>(panels * m.panel_bytes * tiles);
    plan.parts.push_back(part);
  }
  return plan;
}

void run_unit(const Plan& plan, int64_t unit) {
  size_t i = plan.parts.size() - 1;
  while (plan.parts[i].first_unit > unit) i--;
  const Plan::Part& part = plan.parts[i];
  const int64_t local = unit - part.first_unit;
  const int64_t panel = local % part.panel_blocks * part.panel_step,
                tile = local / part.panel_blocks * part.tile_step;
  const CpuKernels& k = kernels();
  LinearTask task = part.task;
  task.panel_begin = panel;
  task.panel_end = std::min(part.task.panel_end, panel + part.panel_step);
  task.tile_begin = tile;
  task.tile_end = std::min(part.task.tile_end, tile + part.tile_step);
  if (task.unpack)
    task.scratch = thread_scratch(
        1, static_cast<size_t>(k.linear_scratch_bytes(*task.weight, task.tile_end - task.tile_begin)));
  (part.int8 ? k.linear_int8 : k.linear_f32)(task);
}

}  // namespace

std::vector<mx::array> linear(const mx::array& x, std::span<const Weight* const> weights) {
  const int64_t rows = x.shape(0);
  std::vector<mx::array> out;
  out.reserve(weights.size());
  for (const Weight* w : weights)
    out.push_back(make_array({x.shape(0), static_cast<int>(w->out_features())}, mx::float32));
  if (rows == 0 || weights.empty()) return out;
  std::vector<int> which;
  const auto forms = prepare(read_f32(x, "linear"), rows, weights, which);
  const Plan plan = make_plan(weights, forms, which, out);
  const auto body = [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; u++) run_unit(plan, u);
  };
  if (plan.bytes < static_cast<uint64_t>(kParallelBytes))
    body(0, plan.units);
  else
    parallel_for(plan.units, 1, body);
  return out;
}

mx::array embed(std::span<const int> ids, const Weight& table) {
  const PackedMatrix& m = packed(table);
  mx::array out = make_array({static_cast<int>(ids.size()), static_cast<int>(m.cols)}, mx::float32);
  float* y = out.data<float>();
  parallel_for(static_cast<int64_t>(ids.size()), 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) kernels().embed_row(m, ids[static_cast<size_t>(i)], y + i * m.cols);
  });
  return out;
}

}  // namespace anabranch::ops::cpu
