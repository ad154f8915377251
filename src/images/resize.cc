#include "images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace anabranch {

namespace {

constexpr int kWeightBits = 15;     // a weight fits int16_t
constexpr int kMostPrecision = 22;  // so that a weighted sum of bytes fits int32_t

double bilinear(double x) {
  return std::max(0.0, 1 - std::abs(x));
}

// Keys' cubic convolution with a = -1/2.
double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// For each position along the result's axis: the range of source positions from which it is computed, with
// weights in fixed point.
struct Taps {
  int precision = 0;  // 1.0 is 1 << precision
  std::vector<int> first, count;
  std::vector<size_t> begin;  // index of the position's first weight
  std::vector<int16_t> weights;
};

// The weights of the positions first .. last - 1 around `center`; their sum is 1.
void add_weights(double center, int first, int last, double inverse_scale, ResizeFilter filter,
                 std::vector<double>& weights) {
  const size_t begin = weights.size();
  double total = 0;
  for (int i = first; i < last; i++) {
    const double x = (i - center + 0.5) * inverse_scale;
    weights.push_back(filter == ResizeFilter::bicubic ? bicubic(x) : bilinear(x));
    total += weights.back();
  }
  if (total != 0)
    for (size_t i = begin; i < weights.size(); i++) weights[i] /= total;
}

Taps make_taps(int source, int result, ResizeFilter filter) {
  const double scale = static_cast<double>(source) / result;
  const double widened = std::max(1.0, scale);  // an antialiasing filter covers all pixels that become one
  const double support = (filter == ResizeFilter::bicubic ? 2 : 1) * widened;
  Taps taps;
  std::vector<double> weights;
  for (int i = 0; i < result; i++) {
    const double center = scale * (i + 0.5);
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int last = std::min(static_cast<int>(center + support + 0.5), source);
    taps.first.push_back(first);
    taps.count.push_back(last - first);
    taps.begin.push_back(weights.size());
    add_weights(center, first, last, 1 / widened, filter, weights);
  }
  const double most = *std::max_element(weights.begin(), weights.end());
  while (taps.precision < kMostPrecision &&
         static_cast<int>(0.5 + most * (2 << taps.precision)) < 1 << kWeightBits)
    taps.precision++;
  for (const double w : weights)
    taps.weights.push_back(static_cast<int16_t>(w * (1 << taps.precision) + (w < 0 ? -0.5 : 0.5)));
  return taps;
}

uint8_t to_byte(int32_t sum, int precision) {
  return static_cast<uint8_t>(std::clamp(sum >> precision, 0, 255));
}

// The sum of `count` rows of kLanes values, each with its weight. `stride` is the distance between rows.
template <int kLanes, class Value>
void weighted_sum(const Value* rows, size_t stride, const int16_t* weights, int count, int precision,
                  uint8_t* out) {
  int32_t sums[kLanes];
  for (int i = 0; i < kLanes; i++) sums[i] = 1 << (precision - 1);
  for (int k = 0; k < count; k++) {
    const Value* row = rows + stride * k;
    const int16_t weight = weights[k];
    for (int i = 0; i < kLanes; i++) sums[i] += int32_t{weight} * static_cast<int16_t>(row[i]);
  }
  for (int i = 0; i < kLanes; i++) out[i] = to_byte(sums[i], precision);
}

constexpr int kRows = 8;                // resized together, so that the values for one weight are adjacent
constexpr int kBlockLanes = 3 * kRows;  // [3, kRows]

// rows -> [width, 3, kRows]. Missing rows repeat the last one.
void pack_rows(const uint8_t* rgb, int width, int rows, std::vector<int16_t>& block) {
  const uint8_t* row[kRows];
  for (int r = 0; r < kRows; r++) row[r] = rgb + 3 * size_t(width) * std::min(r, rows - 1);
  int16_t* out = block.data();
  for (size_t i = 0; i < 3 * size_t(width); i++, out += kRows)
    for (int r = 0; r < kRows; r++) out[r] = row[r][i];
}

Picture resize_width(const Picture& picture, int width, ResizeFilter filter) {
  const Taps taps = make_taps(picture.width, width, filter);
  Picture out{width, picture.height, std::vector<uint8_t>(3 * size_t(width) * picture.height)};
  std::vector<int16_t> block(size_t(kBlockLanes) * picture.width);
  for (int y = 0; y < picture.height; y += kRows) {
    const int rows = std::min(kRows, picture.height - y);
    pack_rows(picture.rgb.data() + 3 * size_t(picture.width) * y, picture.width, rows, block);
    uint8_t* to = out.rgb.data() + 3 * size_t(width) * y;
    for (int x = 0; x < width; x++, to += 3) {
      uint8_t values[kBlockLanes];
      weighted_sum<kBlockLanes>(block.data() + size_t(kBlockLanes) * taps.first[x], kBlockLanes,
                                taps.weights.data() + taps.begin[x], taps.count[x], taps.precision, values);
      for (int r = 0; r < rows; r++)
        for (int c = 0; c < 3; c++) to[3 * size_t(width) * r + c] = values[kRows * c + r];
    }
  }
  return out;
}

Picture resize_height(const Picture& picture, int height, ResizeFilter filter) {
  constexpr int kLanes = 32;
  const Taps taps = make_taps(picture.height, height, filter);
  const size_t row = 3 * size_t(picture.width);
  Picture out{picture.width, height, std::vector<uint8_t>(row * height)};
  for (int y = 0; y < height; y++) {
    const uint8_t* from = picture.rgb.data() + row * taps.first[y];
    const int16_t* weights = taps.weights.data() + taps.begin[y];
    uint8_t* to = out.rgb.data() + row * y;
    size_t x = 0;
    for (; x + kLanes <= row; x += kLanes)
      weighted_sum<kLanes>(from + x, row, weights, taps.count[y], taps.precision, to + x);
    for (; x < row; x++) weighted_sum<1>(from + x, row, weights, taps.count[y], taps.precision, to + x);
  }
  return out;
}

}  // namespace

Picture resize(const Picture& picture, int width, int height, ResizeFilter filter) {
  // Width first, with rounding in between, like torchvision.
  if (picture.width == width)
    return picture.height == height ? picture : resize_height(picture, height, filter);
  Picture wide = resize_width(picture, width, filter);
  return picture.height == height ? wide : resize_height(wide, height, filter);
}

}  // namespace anabranch
