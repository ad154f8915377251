#include "ops/cuda/weight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "base/float16.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"

namespace anabranch::ops::cuda {
namespace {

constexpr int kRows = 16, kInputs = 64;

// The position of row r (of 16) and input k (of 64) in a record: the lane, the step of 16 inputs, the half of
// the step, odd or even input, upper or lower 8 rows.
struct RecordIndex {
  int lane, step, half, odd, high;
  RecordIndex(int r, int k)
      : lane(r % 8 * 4 + k % 8 / 2), step(k / 16), half(k % 16 / 8), odd(k % 2), high(r / 8) {}
};

void put_nibble(uint8_t* word, int shift, uint8_t code) {
  uint32_t bits;
  std::memcpy(&bits, word, 4);
  bits |= static_cast<uint32_t>(code & 15) << shift;
  std::memcpy(word, &bits, 4);
}

// Stores an integer code. One half of a word has the even inputs of two steps, the other half the odd inputs.
void put_integer(uint8_t* record, int planes, int r, int k, uint8_t code) {
  const RecordIndex at(r, k);
  for (int plane = 0; plane < planes; plane++, code >>= 4)
    put_nibble(record + plane * 512 + at.lane * 16 + (at.high * 2 + at.step / 2) * 4,
               (at.step % 2 * 2 + at.half) * 4 + at.odd * 16, code);
}

// Stores an index into a table. Each half of a word has one step. If the table has signs, they are stored
// separately.
void put_index(uint8_t* record, bool has_signs, int r, int k, uint8_t code) {
  const RecordIndex at(r, k);
  uint8_t* word = record + at.lane * 16 + (at.high * 2 + at.step / 2) * 4;
  const int upper = at.step % 2, input = at.half * 2 + at.odd;
  put_nibble(word, upper * 16 + input * 4, has_signs ? code & 7 : code);
  if (has_signs && code >= 8) put_nibble(word, input * 8 + (upper ? 0 : 4), 8);
}

void put_e4m3(uint8_t* record, int r, int k, uint8_t code) {
  const RecordIndex at(r, k);
  const int word = at.step * 2 + at.high;
  record[word / 4 * 512 + at.lane * 16 + word % 4 * 4 + at.half * 2 + at.odd] = code;
}

void put_value(uint8_t* record, int planes, int r, int k, float value) {
  const RecordIndex at(r, k);
  for (int plane = 0; plane < planes; plane++) {
    const uint16_t bits = float_to_bf16(value);
    std::memcpy(
        record + plane * 2048 + at.step * 512 + at.lane * 16 + (at.half * 2 + at.high) * 4 + at.odd * 2,
        &bits, 2);
    value -= bf16_to_float(bits);
  }
}

float rounded_to_bf16(float x) {
  return bf16_to_float(float_to_bf16(x));
}

// A scale that does not fit in bf16 occurs in no model.
uint16_t stored_scale(int kind, float scale) {
  return float_to_bf16(std::ldexp(scale, kind == kE4m3 ? kE4m3ScaleExponent : kScaleExponent));
}
void put_scale_and_bias(uint8_t* scales, int group, int r, float scale, float bias) {
  const uint16_t both[] = {stored_scale(kIntegers, scale), float_to_bf16(std::ldexp(bias, -kSumExponent))};
  std::memcpy(scales + ((group * 8 + r % 8) * 2 + r / 8) * 4, both, 4);
}
void put_scale(uint8_t* scales, int group, int r, int kind, float scale) {
  const uint16_t bits = stored_scale(kind, scale);
  std::memcpy(scales + ((group * 8 + r % 8) * 2 + r / 8) * 2, &bits, 2);
}

// The kernels' index of each of the source's codes in table `index`; none if a code is missing there.
using CodeIndices = std::array<uint8_t, 16>;
std::optional<CodeIndices> indices_in(int index, const CodeTable& table) {
  const auto& known = kCodeTables[index];
  CodeIndices indices;
  for (size_t code = 0; code < 16; code++) {
    const auto* at = std::find(std::begin(known), std::end(known), table[code]);
    if (at == std::end(known)) return std::nullopt;
    indices[code] = static_cast<uint8_t>(at - std::begin(known));
  }
  return indices;
}

struct Layout {
  int kind, planes, groups;
  int64_t code_bytes, record_bytes;
  CodeIndices indices{};
};

void put_code(uint8_t* record, const Layout& layout, int r, int k, uint8_t code) {
  if (layout.kind == kIntegers) return put_integer(record, layout.planes, r, k, code);
  if (layout.kind == kE4m3) return put_e4m3(record, r, k, code);
  put_index(record, layout.kind > kFirstTable, r, k, layout.indices[code]);
}

// Kernels decode E4M3's NaN as 480. Instead, a NaN scale makes the same outputs NaN.
bool has_nan(const uint8_t* e4m3, int count) {
  return std::any_of(e4m3, e4m3 + count, [](uint8_t code) { return (code & 0x7Fu) == 0x7F; });
}

void pack_codes(const WeightSource& s, const Layout& layout, int64_t first, int64_t count, uint8_t* to) {
  const int64_t groups = s.cols / s.group;
  std::vector<uint8_t> codes(static_cast<size_t>(count * s.cols));
  std::vector<float> scales(static_cast<size_t>(count * groups)), biases(scales.size());
  s.read_codes(first, count, codes.data(), scales.data(), biases.data());
  for (int64_t r = 0; r < count; r++) {
    const int row = static_cast<int>(r);
    for (int64_t k = 0; k < s.cols; k++)
      put_code(to + k / kInputs * layout.record_bytes, layout, row, static_cast<int>(k % kInputs),
               codes[static_cast<size_t>(r * s.cols + k)]);
    const int span = kInputs / layout.groups;
    for (int64_t k = 0; k < s.cols; k += span) {
      const auto g = static_cast<size_t>(r * groups + k / s.group);
      uint8_t* at = to + k / kInputs * layout.record_bytes + layout.code_bytes;
      const int group = static_cast<int>(k % kInputs / span);
      if (layout.kind != kIntegers) {
        const bool nan = layout.kind == kE4m3 && has_nan(&codes[static_cast<size_t>(r * s.cols + k)], span);
        put_scale(at, group, row, layout.kind, nan ? std::numeric_limits<float>::quiet_NaN() : scales[g]);
        continue;
      }
      const float scale = rounded_to_bf16(scales[g]),
                  bias = s.symmetric ? -static_cast<float>(s.zero_point) * scale : biases[g];
      put_scale_and_bias(at, group, row, scale, rounded_to_bf16(bias));
    }
  }
}

void pack_dense(const WeightSource& s, const Layout& layout, int64_t first, int64_t count, uint8_t* to) {
  std::vector<float> values(static_cast<size_t>(count * s.cols));
  s.read_dense(first, count, values.data());
  for (int64_t r = 0; r < count; r++)
    for (int64_t k = 0; k < s.cols; k++)
      put_value(to + k / kInputs * layout.record_bytes, layout.planes, static_cast<int>(r),
                static_cast<int>(k % kInputs), values[static_cast<size_t>(r * s.cols + k)]);
}

}  // namespace

bool is_plain(const RecordFormat& format) {
  return format.kind == kPlainValues;
}

int record_bytes(const RecordFormat& format) {
  const auto [kind, planes, groups] = format;
  if (kind == kPlainValues) return planes * 2048;
  return kind == kIntegers ? planes * 512 + groups * kRows * 4
                           : (kind == kE4m3 ? 1024 : 512) + groups * kRows * 2;
}

namespace {

// The layout of a packed source; none if the kernels do not have its table.
std::optional<Layout> layout_of(const WeightSource& s) {
  Layout layout{};
  layout.groups = is_coded(s.kind) ? kInputs / std::min(s.group, kInputs) : 1;
  layout.planes = 1;
  if (!is_coded(s.kind)) {
    layout.kind = kPlainValues;
    layout.planes = s.kind == WeightKind::bf16 ? 1 : 2;
  } else if (s.kind == WeightKind::affine) {
    layout.kind = kIntegers;
    layout.planes = s.bits <= 4 ? 1 : 2;
  } else if (s.kind == WeightKind::fp8) {
    layout.kind = kE4m3;
  } else {
    int index = 0;
    std::optional<CodeIndices> indices;
    while (index < kCodeTableCount && !(indices = indices_in(index, s.table))) index++;
    if (!indices) return std::nullopt;
    layout.kind = kFirstTable + index;
    layout.indices = *indices;
  }
  layout.record_bytes = record_bytes({layout.kind, layout.planes, layout.groups});
  layout.code_bytes =
      layout.record_bytes -
      (layout.kind == kPlainValues ? 0 : layout.groups * kRows * (layout.kind == kIntegers ? 4 : 2));
  return layout;
}

}  // namespace

PackedRecords pack(const WeightSource& s, ThreadPool& threads) {
  const std::optional<Layout> found = layout_of(s);
  if (!found) return pack(decoded(s), threads);
  const Layout& layout = *found;
  PackedRecords out;
  out.format = {layout.kind, layout.planes, layout.groups};
  out.input_tiles = static_cast<int>((s.cols + kInputs - 1) / kInputs);
  const int64_t tiles = (s.rows + kRows - 1) / kRows, tile_bytes = out.input_tiles * layout.record_bytes;
  out.size = static_cast<size_t>(tiles * tile_bytes);
  out.memory = std::make_unique_for_overwrite<uint8_t[]>(out.size);  // each thread clears its part
  threads.parallel_for(tiles, std::max<int64_t>(1, tiles / 64), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
      const int64_t first = t * kRows, count = std::min<int64_t>(kRows, s.rows - first);
      uint8_t* to = out.memory.get() + t * tile_bytes;
      std::memset(to, 0, static_cast<size_t>(tile_bytes));
      (is_coded(s.kind) ? pack_codes : pack_dense)(s, layout, first, count, to);
    }
  });
  return out;
}

namespace {

std::shared_ptr<DeviceWeight> describe(const PackedRecords& packed) {
  auto weight = std::make_shared<DeviceWeight>();
  weight->format = packed.format;
  weight->input_tiles = packed.input_tiles;
  weight->bytes = packed.size;
  return weight;
}

}  // namespace

std::shared_ptr<const Weight::Storage> make_experts(Device& device, const WeightSource& source, int experts) {
  CudaDevice& on = cuda_device(device);
  const int resident = on.resident_experts(experts);
  if (resident == experts) return make_weight(device, source);
  const PackedRecords packed = pack(source, on.threads());
  auto weight = describe(packed);
  weight->split = std::make_shared<SplitExperts>(on.context(), packed.bytes(), experts, resident);
  on.reserve_stage(weight->split->missing_bytes());
  return weight;
}

std::shared_ptr<const Weight::Storage> make_weight(Device& device, const WeightSource& source) {
  CudaDevice& on = cuda_device(device);
  Context& context = on.context();
  const PackedRecords packed = pack(source, on.threads());
  auto weight = describe(packed);
  void* memory = context.allocate(packed.size);
  if (!memory) {
    on.trim();
    memory = context.allocate(packed.size);
  }
  if (!memory)
    throw std::runtime_error(
        fmt::format("CUDA: the device has {} MB of memory left; the model's next matrix takes {}",
                    context.free_memory() >> 20, packed.size >> 20));
  weight->memory = {static_cast<unsigned char*>(memory), [&context](void* p) { context.release(p); }};
  context.copy_to_device(memory, packed.memory.get(), packed.size);
  context.synchronize();
  return weight;
}

}  // namespace anabranch::ops::cuda
