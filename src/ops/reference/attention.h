#pragma once

#include "ops/attention.h"

namespace anabranch::ops::reference {

void kv_add_block(PagedKv& kv);
void kv_append(PagedKv& kv, const mx::array& k, const mx::array& v);
mx::array attention(const mx::array& q, const PagedKv& kv, float scale, int window);

}  // namespace anabranch::ops::reference
