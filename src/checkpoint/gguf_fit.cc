#include "checkpoint/gguf_fit.h"

namespace anabranch {

namespace {

constexpr int kGroups = 8, kGroup = 32, kLanes = 8, kMostInteger = 63;

// Sums over a group for codes q = clamp(round((w + min) / scale)), weighted by h.
struct AffineSums {
  float error, q, qq, qw;
};

float total_of(const float* x) {
  return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

AffineSums evaluate(const FitGroup& g, float scale, float min, float top) {
  const float inverse = scale == 0 ? 0 : 1 / scale;
  float error[kLanes] = {}, q1[kLanes] = {}, q2[kLanes] = {}, qw[kLanes] = {};
  for (int i = 0; i < kGroup; i += kLanes)
    for (int j = 0; j < kLanes; j++) {
      const float w = g.w[i + j], h = g.h[i + j];
      float t = (w + min) * inverse + 0.5f;
      t = t > 0 ? t : 0;
      t = t < top + 0.5f ? t : top;
      const float q = static_cast<float>(static_cast<int>(t)), e = w - (q * scale - min), hq = h * q;
      error[j] += h * e * e;
      q1[j] += hq;
      q2[j] += hq * q;
      qw[j] += hq * w;
    }
  return {total_of(error), total_of(q1), total_of(q2), total_of(qw)};
}

// Computes the codes for which evaluate() computes the sums.
void choose_codes(const FitGroup& g, float scale, float min, float top, uint8_t* codes) {
  const float inverse = scale == 0 ? 0 : 1 / scale;
  for (int i = 0; i < kGroup; i++) {
    float t = (g.w[i] + min) * inverse + 0.5f;
    t = t > 0 ? t : 0;
    t = t < top + 0.5f ? t : top;
    codes[i] = static_cast<uint8_t>(static_cast<int>(t));
  }
}

// The scale and min (subtracted) of one group, before they become integers.
struct Affine {
  float scale = 0, min = 0, error = INFINITY;
};

class AffineGroupFit {
 public:
  // least: lower bound of the min.
  AffineGroupFit(const FitGroup& group, float top, float least) : group_(group), top_(top), least_(least) {
    for (int i = 0; i < kGroup; i++) {
      count_ += group.h[i];
      sum_ += group.h[i] * group.w[i];
    }
  }

  Affine best() {
    const float low = std::min(-least_, *std::min_element(group_.w, group_.w + kGroup));
    const float high = std::max(low, *std::max_element(group_.w, group_.w + kGroup));
    const float range = high - low;
    if (!(range > 0)) return {0, -low, 0};
    // How much of the range is cut off at an end, in steps of the codes; below 0: the range is extended.
    constexpr float kCuts[] = {-0.4f, 0, 0.4f, 0.9f, 1.8f};
    for (const float below : kCuts)
      for (const float above : kCuts) search(low + below / top_ * range, high - above / top_ * range);
    return best_;
  }

  // The best min for the codes of a scale.
  float min_for(float scale, const AffineSums& s) const {
    return count_ > 0 ? std::max(least_, (scale * s.q - sum_) / count_) : 0;
  }

 private:
  void search(float low, float high) {
    float scale = (high - low) / top_, min = std::max(least_, -low);
    constexpr int kRefits = 3;
    for (int i = 0; i < kRefits && scale > 0; i++) {
      const AffineSums s = evaluate(group_, scale, min, top_);
      if (s.error < best_.error) best_ = {scale, min, s.error};
      const float variance = s.qq - s.q * (s.q / count_);
      if (!(variance > 0)) break;
      scale = (s.qw - s.q * (sum_ / count_)) / variance;
      min = (scale * s.q - sum_) / count_;
      if (min < least_) {
        min = least_;
        scale = (s.qw + min * s.q) / s.qq;
      }
    }
  }

  FitGroup group_;
  float top_, least_, count_ = 0, sum_ = 0;
  Affine best_;
};

class AffineBlockFit {
 public:
  AffineBlockFit(const float* w, const float* h, int top) : top_(static_cast<float>(top)) {
    for (int g = 0; g < kGroups; g++) {
      groups_[g] = {w + g * kGroup, h + g * kGroup, kGroup};
      wanted_[g] = AffineGroupFit(groups_[g], top_, 0).best();
    }
  }

  AffineBlock run() {
    float scale = 0, min = 0;
    for (const Affine& a : wanted_) scale = std::max(scale, a.scale), min = std::max(min, a.min);
    // Values to try for the largest integer; a smaller one makes the common factor larger.
    for (const float most : {63.0f, 61.0f}) {
      float d = scale / most, dmin = min / most;
      constexpr int kRefits = 3;
      for (int i = 0; i < kRefits; i++) consider(d, dmin);
    }
    const float d = f16_to_float(best_.d), dmin = f16_to_float(best_.dmin);
    for (int g = 0; g < kGroups; g++)
      choose_codes(groups_[g], d * best_.scales[g], dmin * best_.mins[g], top_, best_.codes + g * kGroup);
    return best_;
  }

 private:
  // The integers of a group.
  struct GroupCodes {
    int scale = 0, min = 0;
    AffineSums sums{INFINITY, 0, 0, 0};
  };

  // Chooses the integers for these factors (rounded to f16), and keeps them if they are the best so far. Sets
  // the factors to the best ones for the resulting codes.
  void consider(float& d, float& dmin) {
    const uint16_t d_bits = float_to_f16(d), dmin_bits = float_to_f16(dmin);
    const float factor = f16_to_float(d_bits), min_factor = f16_to_float(dmin_bits);
    if (!std::isfinite(factor) || !std::isfinite(min_factor)) return;
    double error = 0;
    Normal normal;
    AffineBlock block;
    block.d = d_bits;
    block.dmin = dmin_bits;
    for (int g = 0; g < kGroups; g++) {
      const GroupCodes c = choose(g, factor, min_factor);
      block.scales[g] = static_cast<uint8_t>(c.scale);
      block.mins[g] = static_cast<uint8_t>(c.min);
      error += c.sums.error;
      normal.add(c, groups_[g]);
    }
    if (error < least_) least_ = error, best_ = block;
    normal.solve(d, dmin);
  }

  GroupCodes choose(int g, float d, float dmin) const {
    const AffineGroupFit fit(groups_[g], top_, 0);
    const int near = integer(wanted_[g].scale, d), near_min = integer(wanted_[g].min, dmin);
    GroupCodes best;
    const auto consider = [&](int s, int m) {
      const AffineSums sums =
          evaluate(groups_[g], d * static_cast<float>(s), dmin * static_cast<float>(m), top_);
      if (sums.error < best.sums.error) best = {s, m, sums};
      return integer(fit.min_for(d * static_cast<float>(s), sums), dmin);
    };
    for (int s = std::max(near - 1, 0); s <= std::min(near + 1, kMostInteger); s++) {
      const int suited = consider(s, near_min);
      if (suited == near_min) continue;
      consider(s, suited);
    }
    return best;
  }

  static int integer(float value, float factor) {
    if (factor == 0) return 0;
    return static_cast<int>(std::clamp(std::nearbyint(value / factor), 0.0f, float{kMostInteger}));
  }

  // Least squares of d and dmin for given codes: w ~ d * (scale * q) - dmin * min.
  struct Normal {
    double aa = 0, ab = 0, bb = 0, aw = 0, bw = 0;

    void add(const GroupCodes& c, const FitGroup& g) {
      double count = 0, sum = 0;
      for (int i = 0; i < kGroup; i++) count += g.h[i], sum += double{g.h[i]} * g.w[i];
      aa += double{c.sums.qq} * c.scale * c.scale;
      ab += double{c.sums.q} * c.scale * c.min;
      bb += count * c.min * c.min;
      aw += double{c.sums.qw} * c.scale;
      bw += sum * c.min;
    }
    void solve(float& d, float& dmin) const {
      const double determinant = aa * bb - ab * ab;
      if (determinant > 1e-9 * aa * bb) {
        const double new_d = (aw * bb - bw * ab) / determinant, new_dmin = (aw * ab - bw * aa) / determinant;
        if (new_d > 0 && new_dmin >= 0) {
          d = static_cast<float>(new_d);
          dmin = static_cast<float>(new_dmin);
          return;
        }
      }
      if (aa > 0 && aw + dmin * ab > 0) d = static_cast<float>((aw + dmin * ab) / aa);
    }
  };

  float top_;
  std::array<FitGroup, kGroups> groups_{};
  std::array<Affine, kGroups> wanted_{};
  AffineBlock best_{};
  double least_ = INFINITY;
};

}  // namespace

AffineBlock fit_affine_block(const float* w, const float* h, int top) {
  return AffineBlockFit(w, h, top).run();
}

AffineGroup fit_affine_group(const float* w, const float* h, int top) {
  const FitGroup group{w, h, kGroup};
  const auto most = static_cast<float>(top);
  AffineGroupFit fit(group, most, -INFINITY);
  const Affine wanted = fit.best();
  AffineGroup out;
  float least = INFINITY;
  // The scale rounded to f16 and its neighbours, each with its best bias.
  const uint16_t near = float_to_f16(wanted.scale);
  for (const int step : {0, -1, 1}) {
    if (near + step < 0) continue;
    const auto scale_bits = static_cast<uint16_t>(near + step);
    const float scale = f16_to_float(scale_bits);
    const AffineSums sums = evaluate(group, scale, wanted.min, most);
    const uint16_t bias_bits = float_to_f16(-fit.min_for(scale, sums));
    const float min = -f16_to_float(bias_bits), error = evaluate(group, scale, min, most).error;
    if (!std::isfinite(scale) || !std::isfinite(min) || !(error < least)) continue;
    least = error;
    out.scale = scale_bits;
    out.bias = bias_bits;
    choose_codes(group, scale, min, most, out.codes);
  }
  return out;
}

}  // namespace anabranch
