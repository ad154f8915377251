// bitsandbytes. 4 bits (nf4, fp4): codes of a table of floats, the upper half of a byte first, with a maximum
// for each block of the flattened matrix, which may be quantised itself ("double quantisation"). The table
// has no integers, so these are read as dense values of the type that the file names, as the tool does. 8
// bits: code 127 stands for a row's largest magnitude (SCB).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "base/json.h"
#include "checkpoint/dense.h"
#include "checkpoint/quantized/grouped.h"
#include "checkpoint/quantized/layouts.h"
#include "checkpoint/store.h"

namespace anabranch {

namespace {

constexpr std::string_view kStates[] = {".weight.quant_state.bitsandbytes__nf4",
                                        ".weight.quant_state.bitsandbytes__fp4"};
constexpr std::string_view kParts4[] = {
    ".weight.absmax",           ".weight.quant_map", ".weight.nested_absmax",
    ".weight.nested_quant_map", kStates[0],          kStates[1]};
constexpr std::string_view kParts8[] = {".SCB", ".weight_format"};
constexpr size_t kMaxState = 1 << 16;
constexpr int64_t kMaxBlock = 1 << 20;

bool matches4(const QuantizedModule& m) {
  return m.find(".weight.absmax");
}
bool matches8(const QuantizedModule& m) {
  return m.main().dtype == "I8" && m.find(".SCB");
}

struct State {
  int64_t rows = 0, cols = 0, block = 0, nested_block = 0;
  float offset = 0;
  WeightKind kind = WeightKind::bf16;
  std::string type;
};

Result<State> read_state(const QuantizedModule& m) {
  const auto* tensor = m.find(kStates[0]);
  if (!tensor) tensor = m.find(kStates[1]);
  if (!tensor) return m.invalid("its quant_state is missing");
  if (tensor->dtype != "U8" || tensor->data.size() > kMaxState)
    return m.invalid("\"{}\" is no text", shown(tensor->name));
  const auto json = parse_json({reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size()});
  if (!json.ok() || !json->is_object()) return m.invalid("\"{}\" is no JSON object", shown(tensor->name));
  const auto number = [&](const char* key, int64_t most) -> int64_t {
    const auto at = json->find(key);
    if (at == json->end() || !at->is_number_integer() || *at < 1 || *at > most) return 0;
    return at->get<int64_t>();
  };
  State out;
  out.block = number("blocksize", kMaxBlock);
  out.nested_block = number("nested_blocksize", kMaxBlock);
  if (const auto at = json->find("nested_offset"); at != json->end() && at->is_number())
    out.offset = at->get<float>();
  const std::string dtype = string_at(*json, "dtype");
  out.kind = dtype == "float16" ? WeightKind::f16 : dtype == "float32" ? WeightKind::f32 : WeightKind::bf16;
  out.type = string_at(*json, "quant_type");
  const auto shape = json->find("shape");
  const bool matrix = shape != json->end() && shape->is_array() && shape->size() == 2 &&
                      (*shape)[0].is_number_integer() && (*shape)[1].is_number_integer() && (*shape)[0] > 0 &&
                      (*shape)[1] > 0 && (*shape)[0] <= INT32_MAX && (*shape)[1] <= INT32_MAX;
  const bool known_type = dtype == "bfloat16" || dtype == "float16" || dtype == "float32";
  if (!matrix || out.block == 0 || !known_type)
    return m.invalid("\"{}\" states no matrix, block size or type that is known", shown(tensor->name));
  out.rows = (*shape)[0].get<int64_t>();
  out.cols = (*shape)[1].get<int64_t>();
  return out;
}

// Points to `count` floats.
Result<const std::byte*> find_floats(const QuantizedModule& m, std::string_view suffix, size_t count) {
  TRY(const auto* tensor, m.need(suffix));
  if (tensor->dtype != "F32" || tensor->data.size() != count * 4)
    return m.invalid("\"{}\" has type {} and shape {}; {} numbers of F32 were expected", shown(tensor->name),
                     tensor->dtype, shape_text(tensor->shape), count);
  return tensor->data.data();
}

Result<std::vector<float>> read_floats(const QuantizedModule& m, std::string_view suffix, size_t count) {
  TRY(const auto* floats, find_floats(m, suffix, count));
  std::vector<float> out(count);
  std::memcpy(out.data(), floats, count * 4);
  return out;
}

float float_at(const std::byte* floats, int64_t i) {
  float out;
  std::memcpy(&out, floats + i * 4, 4);
  return out;
}

// The factor of each block, read where it is needed: those of a whole model are hundreds of megabytes.
struct Factors {
  const std::byte* codes = nullptr;   // of the inner quantisation; null: there is none
  const std::byte* floats = nullptr;  // one for each block, or for each nested block
  int64_t nested_block = 1;
  float offset = 0;
  std::vector<float> map{};  // of codes

  float operator[](int64_t block) const {
    if (!codes) return float_at(floats, block);
    const float product = map[static_cast<uint8_t>(codes[block])] * float_at(floats, block / nested_block);
    return product + offset;
  }
};

Result<Factors> find_factors(const QuantizedModule& m, const State& state, size_t blocks) {
  TRY(const auto* absmax, m.need(".weight.absmax"));
  if (absmax->dtype != "U8") {
    TRY(const auto* floats, find_floats(m, ".weight.absmax", blocks));
    return Factors{.floats = floats};
  }
  if (state.nested_block == 0 || absmax->data.size() != blocks)
    return m.invalid("\"{}\" has shape {}; {} codes in blocks were expected", shown(absmax->name),
                     shape_text(absmax->shape), blocks);
  const auto nested = static_cast<size_t>(group_count(static_cast<int64_t>(blocks), state.nested_block));
  TRY(const auto* outer, find_floats(m, ".weight.nested_absmax", nested));
  TRY(auto map, read_floats(m, ".weight.nested_quant_map", 256));
  return Factors{absmax->data.data(), outer, state.nested_block, state.offset, std::move(map)};
}

float rounded(WeightKind kind, float value) {
  if (kind == WeightKind::f16) return f16_to_float(float_to_f16(value));
  return kind == WeightKind::bf16 ? bf16_to_float(float_to_bf16(value)) : value;
}

Result<QuantizedMatrix> read4(const QuantizedModule& m, const QuantizationContext&,
                              std::shared_ptr<const void> keep) {
  TRY(const State state, read_state(m));
  const int64_t count = state.rows * state.cols;
  if (static_cast<int64_t>(m.main().data.size()) != (count + 1) / 2)
    return m.invalid("{} bytes do not hold 4-bit codes of [{}, {}]", m.main().data.size(), state.rows,
                     state.cols);
  TRY(const auto map, read_floats(m, ".weight.quant_map", 16));
  TRY(auto factors, find_factors(m, state, static_cast<size_t>(group_count(count, state.block))));
  WeightSource out;
  out.rows = state.rows;
  out.cols = state.cols;
  out.kind = state.kind;
  out.read_dense = [=, factors = std::move(factors), data = m.main().data.data(), keep = std::move(keep)](
                       int64_t first, int64_t rows, float* values) {
    const int64_t from = first * state.cols, end = from + rows * state.cols;
    for (int64_t i = from; i < end;) {
      const int64_t block = i / state.block, last = std::min(end, (block + 1) * state.block);
      const float factor = factors[block];
      for (; i < last; i++) {
        const auto byte = static_cast<uint8_t>(data[i / 2]);
        const int code = i % 2 == 0 ? byte >> 4 : byte & 15;
        values[i - from] = rounded(state.kind, map[code] * factor);
      }
    }
  };
  return QuantizedMatrix{
      state.type == "fp4" ? "bnb-fp4" : "bnb-nf4", {state.rows, state.cols}, std::move(out)};
}

Result<QuantizedMatrix> read8(const QuantizedModule& m, const QuantizationContext&,
                              std::shared_ptr<const void> keep) {
  const auto& shape = m.main().shape;
  const auto [rows, cols] = rows_and_cols(shape);
  if (shape.size() != 2 || rows == 0 || cols == 0)
    return m.invalid("it has shape {}; a matrix was expected", shape_text(shape));
  if (const auto* format = m.find(".weight_format"))
    for (const std::byte b : format->data)
      if (b != std::byte{0})
        return m.error(ErrorKind::unsupported,
                       "its codes are in an order for one kind of GPU: save it again");
  TRY(auto scales, read_floats(m, ".SCB", static_cast<size_t>(rows)));
  constexpr float kStep = 1.0f / 127;
  for (float& s : scales) s *= kStep;
  GroupedCodes codes;
  codes.format.rows = rows;
  codes.format.cols = cols;
  codes.format.kind = WeightKind::affine;
  codes.format.bits = 8;
  codes.format.scale_type = ScaleType::f32;
  codes.format.symmetric = true;
  codes.format.zero_point = 128;
  codes.group = cols;
  codes.groups = 1;
  codes.read_codes = [data = m.main().data.data(), cols = cols, keep](int64_t first, int64_t count,
                                                                      uint8_t* out) {
    for (int64_t i = 0; i < count * cols; i++) out[i] = static_cast<uint8_t>(data[first * cols + i]) ^ 0x80;
  };
  codes.read_scales = [scales = std::make_shared<const std::vector<float>>(std::move(scales))](
                          int64_t first, int64_t count, float* out, float*) {
    std::memcpy(out, scales->data() + first, static_cast<size_t>(count) * 4);
  };
  return QuantizedMatrix{"bnb-int8", shape, grouped_source(std::move(codes))};
}

}  // namespace

const QuantizedLayout kBnb4Layout{".weight", kParts4, matches4, read4};
const QuantizedLayout kBnb8Layout{".weight", kParts8, matches8, read8};

}  // namespace anabranch
