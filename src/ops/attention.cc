#include "ops/attention.h"

#include "ops/arguments.h"
#include "ops/cpu/attention.h"
#include "ops/reference/attention.h"

namespace anabranch::ops {

void kv_append(PagedKv& kv, const mx::array& k, const mx::array& v) {
  require_f32("kv_append", "k", k, 3);
  require_shape("kv_append", "k", k, {k.shape(0), kv.kv_heads, kv.head_dim});
  require_shape("kv_append", "v", v, k.shape());
  if (backend() == Backend::cpu)
    cpu::kv_append(kv, k, v);
  else
    reference::kv_append(kv, k, v);
}

void kv_add_block(PagedKv& kv) {
  backend() == Backend::cpu ? cpu::kv_add_block(kv) : reference::kv_add_block(kv);
}

void kv_truncate(PagedKv& kv, int length) {
  require(length >= 0 && length <= kv.length, "kv_truncate", "cannot cut {} positions to {}.", kv.length,
          length);
  kv.length = length;
  const auto blocks = (length + kKvBlock - 1) / kKvBlock;
  kv.k.erase(kv.k.begin() + blocks, kv.k.end());
  kv.v.erase(kv.v.begin() + blocks, kv.v.end());
}

mx::array attention(const mx::array& q, const PagedKv& kv, float scale, int window) {
  require_f32("attention", "q", q, 3);
  require(kv.kv_heads > 0 && q.shape(1) % kv.kv_heads == 0 && q.shape(2) == kv.head_dim, "attention",
          "q of shape {} does not fit {} kv heads of {}.", q, kv.kv_heads, kv.head_dim);
  require(q.shape(0) <= kv.length, "attention", "q has {} rows, the cache only {} positions.", q.shape(0),
          kv.length);
  return backend() == Backend::cpu ? cpu::attention(q, kv, scale, window)
                                   : reference::attention(q, kv, scale, window);
}

}  // namespace anabranch::ops
