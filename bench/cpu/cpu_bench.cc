// The speed of products of int8 activations with coded weights, for each instruction set, in GOP/s (a
// multiply and an add are two). Weights and activations are random.
//
//   cpu_bench [--threads 1,2] [--rows 1,16,64,512] [--targets NAME,NAME] [--formats NAME,NAME]
//             [--shapes 3584x1024,8960x1536]
//
// All targets of a line run in turns, and the shortest of their times counts. Each is compared with the
// first: a line ends with DIFFERENT if some bits differ. "vnni-packed" and "vnni-unpack" are VNNI's kernels
// with the other choice of CpuKernels::unpacks_int8.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ops/cpu/device.h"
#include "ops/cpu/dispatch.h"
#include "ops/linear.h"

namespace anabranch::ops {
namespace {

struct Format {
  const char* name;
  WeightKind kind;
  int bits, group;
  bool block_scales, symmetric;
};
constexpr Format kFormats[] = {
    {"4-bit/64", WeightKind::affine, 4, 64, false, false},
    {"4-bit/32", WeightKind::affine, 4, 32, false, false},
    {"8-bit/64", WeightKind::affine, 8, 64, false, false},
    {"8-bit/32", WeightKind::affine, 8, 32, false, true},
    {"q4_k", WeightKind::affine, 4, 32, true, false},
    {"q5_k", WeightKind::affine, 5, 32, true, false},
    {"q6_k", WeightKind::affine, 6, 16, true, true},
    {"iq4_xs", WeightKind::table, 4, 32, true, true},
};
constexpr CodeTable kTable = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

struct Options {
  std::vector<int> threads = {1, 2}, rows = {1, 16, 64, 512};
  std::vector<std::string> targets, formats;
  std::vector<std::string> shapes = {"3584x1024", "8960x1536", "1024x3584", "1536x8960"};
};

// The same numbers for a row, whichever thread packs it.
struct Random {
  uint32_t state;
  explicit Random(int64_t row) : state(static_cast<uint32_t>(row) * 2654435761u + 1) {}
  uint32_t below(uint32_t n) {
    state = state * 1664525 + 1013904223;
    return (state >> 16) % n;
  }
};

WeightSource make_source(const Format& f, int rows, int cols) {
  WeightSource s;
  s.rows = rows, s.cols = cols, s.kind = f.kind, s.bits = f.bits, s.group = f.group;
  s.symmetric = f.symmetric,
  s.zero_point = f.symmetric && f.kind == WeightKind::affine ? 1 << (f.bits - 1) : 0;
  s.scale_type = ScaleType::f16;
  if (f.kind == WeightKind::table) s.table = kTable;
  // A row's numbers do not depend on the threads that pack it, or how many rows they read at once.
  s.read_codes = [f, cols](int64_t first, int64_t count, uint8_t* codes, float* scales, float* biases) {
    for (int64_t row = 0; row < count; row++) {
      Random random(first + row);
      for (int i = 0; i < cols; i++) *codes++ = static_cast<uint8_t>(random.below(1u << f.bits));
      for (int i = 0; i < cols / f.group; i++) {
        *scales = static_cast<float>(1 + random.below(64)) / 1024;
        if (!f.symmetric) *biases++ = *scales * -4;
        scales++;
      }
    }
  };
  if (f.block_scales)
    s.read_block_scales = [f, cols](int64_t first, int64_t count, BlockScales to) {
      for (int64_t row = 0; row < count; row++) {
        Random random(first + row);
        for (int i = 0; i < cols / kScaleBlock; i++) {
          *to.d++ = 0x2400;
          if (!f.symmetric) *to.dmin++ = 0x1A55;
        }
        for (int i = 0; i < cols / f.group; i++) {
          *to.scales++ = static_cast<int8_t>(random.below(64));
          if (!f.symmetric) *to.mins++ = static_cast<uint8_t>(random.below(64));
        }
      }
    };
  return s;
}

// A target's device and what it computes on a line.
struct Contestant {
  std::string name;
  std::unique_ptr<cpu::CpuDevice> device;
  Weight weight;
  Tensor x, y;
  std::vector<double> seconds;
};

void add(std::vector<Contestant>& all, const Options& o, int threads, const cpu::CpuKernels& kernels) {
  if (!o.targets.empty() && std::ranges::find(o.targets, kernels.name) == o.targets.end()) return;
  all.push_back({kernels.name, std::make_unique<cpu::CpuDevice>(threads, false, kernels), {}, {}, {}, {}});
}

// Every instruction set, and those with 512 bits also with the other choice of CpuKernels::unpacks_int8.
std::vector<Contestant> contestants(const Options& o, int threads) {
  static std::vector<std::unique_ptr<cpu::CpuKernels>> others;
  std::vector<Contestant> all;
  for (const std::string& name : cpu::runnable_targets()) {
    const cpu::CpuKernels& kernels = *cpu::find_target(name);
    add(all, o, threads, kernels);
    if (name != "avx512-vnni") continue;
    others.push_back(std::make_unique<cpu::CpuKernels>(kernels));
    others.back()->unpacks_int8 = !kernels.unpacks_int8;
    others.back()->name = kernels.unpacks_int8 ? "vnni-packed" : "vnni-unpack";
    add(all, o, threads, *others.back());
  }
  return all;
}

void run_line(std::vector<Contestant>& all, const Format& f, int rows, int inputs, int outputs, int threads) {
  const double operations = 2.0 * rows * inputs * outputs;
  std::vector<float> values(static_cast<size_t>(rows) * static_cast<size_t>(inputs));
  Random random(rows);
  for (float& v : values) v = static_cast<float>(random.below(2001)) / 1000 - 1;
  for (Contestant& c : all) {
    c.x = c.device->make({rows, inputs});
    std::memcpy(c.x.data<float>(), values.data(), values.size() * sizeof(float));
    c.y = linear(c.x, c.weight);
    c.seconds.clear();
  }
  for (int turn = 0; turn < 7; turn++) {
    for (Contestant& c : all) {
      const double begin = now_seconds();
      double end = begin;
      int runs = 0;
      for (; end < begin + 0.008; end = now_seconds(), runs++) c.y = linear(c.x, c.weight);
      c.seconds.push_back((end - begin) / runs);
    }
  }
  fmt::print("{:>2} {:>9} {:>5}x{:<5} {:>4}", threads, f.name, outputs, inputs, rows);
  bool same = true;
  for (Contestant& c : all) {
    std::ranges::sort(c.seconds);
    fmt::print(" {:>6.0f}", operations / c.seconds[0] / 1e9);
    same = same && std::memcmp(c.y.data<float>(), all.front().y.data<float>(), c.y.nbytes()) == 0;
  }
  fmt::print("{}\n", same ? "" : " DIFFERENT");
  std::fflush(stdout);
}

void run(const Options& o) {
  for (const int threads : o.threads) {
    std::vector<Contestant> all = contestants(o, threads);
    fmt::print("threads, format, outputs x inputs, rows, GOP/s of:");
    for (const Contestant& c : all) fmt::print(" {}", c.name);
    fmt::print("\n");
    for (const Format& f : kFormats) {
      if (!o.formats.empty() && std::ranges::find(o.formats, f.name) == o.formats.end()) continue;
      for (const std::string& shape : o.shapes) {
        int outputs = 0, inputs = 0;
        if (std::sscanf(shape.c_str(), "%dx%d", &outputs, &inputs) != 2) continue;
        const WeightSource source = make_source(f, outputs, inputs);
        for (Contestant& c : all) c.weight = Weight::make(*c.device, source);
        for (const int rows : o.rows) run_line(all, f, rows, inputs, outputs, threads);
      }
    }
  }
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> out;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');) out.push_back(item);
  return out;
}
std::vector<int> numbers(const std::string& list) {
  std::vector<int> out;
  for (const std::string& item : split(list)) out.push_back(std::stoi(item));
  return out;
}

}  // namespace
}  // namespace anabranch::ops

int main(int argc, char** argv) {
  anabranch::ops::Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], list = argv[i + 1];
    if (flag == "--threads") o.threads = anabranch::ops::numbers(list);
    if (flag == "--rows") o.rows = anabranch::ops::numbers(list);
    if (flag == "--targets") o.targets = anabranch::ops::split(list);
    if (flag == "--formats") o.formats = anabranch::ops::split(list);
    if (flag == "--shapes") o.shapes = anabranch::ops::split(list);
  }
  anabranch::ops::run(o);
}
