// Blocks of keys [Hkv, D, kKvBlock] and of values [Hkv, kKvBlock, D], f32.
#pragma once

#include "ops/attention.h"

namespace anabranch::ops::reference {

void kv_add_block(Device& device, PagedKv& kv);
void kv_append(PagedKv& kv, const Tensor& k, const Tensor& v);
Tensor attention(const Tensor& q, const PagedKv& kv, float scale, int window);

}  // namespace anabranch::ops::reference
