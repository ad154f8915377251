// y = x W^T for 17 to 32 rows of x (8 * NT: 24 or 32) on Hopper: gemv.cu's sums in gemv.cu's order, for so many rows
// that reading x costs more than reading weights. A cluster of kSegments blocks has a share of the weight rows, each of
// its blocks one segment of the inputs: that part of x stays in its shared memory. Weights
// stream through rings; a warp turns TILES tiles of 16 weight rows into fragments, which its warpgroup multiplies
// (wgmma). The blocks' sums meet in the shared memory of one of them: block b has rows 2q, 2q + 1 of every second 8 rows
// of x, q = b % 4.
constexpr int kWarps = 16, kThreads = 32 * kWarps, kPassTiles = kWarps * TILES;
constexpr int kSlots = 2;  // of a block for sums: each for two of 8 rows of x
constexpr int kXTile = NT * 1024;
constexpr int kItems = (kSlots * kPassTiles * 8 + kThreads - 1) / kThreads;  // of a thread, four sums each

// Blocks of the cluster meet; nothing that one wrote before need be seen by the others.
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
// Stores in another block's shared memory; its barrier counts the bytes.
DEVICE void store_in(u32 at, const float v[4], u32 barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(at),
               "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
               : "memory");
}
// In a register, so that it is not computed again at every use.
DEVICE u32 kept(u32 x) {
  asm volatile("" : "+r"(x));
  return x;
}

// A matrix and 16 of its rows.
struct Tile {
  int matrix, tile;
};

// What the cluster has of the launch's tiles (with SWIGLU, pairs of them) is done in passes of about the same length.
// In a pass, warp w has tiles w, w + kWarps, ..; of a pair, one is even.
struct Share {
  int first, last, passes, length, most;  // most: tiles of a pass of any cluster

  __device__ Share(const LinearArgs& a) : most(a.pass_units * (SWIGLU ? 2 : 1)) {
    const int clusters = gridDim.x / kSegments, cluster = blockIdx.x / kSegments;
    first = a.units / clusters * cluster + min(cluster, a.units % clusters);
    last = first + a.units / clusters + (cluster < a.units % clusters);
    passes = (last - first + a.pass_units - 1) / a.pass_units;
    length = (last - first + passes - 1) / passes;
  }
  __device__ int begin(int pass) const { return first + pass * length; }
  __device__ int tiles(int pass) const { return min(length, last - begin(pass)) * (SWIGLU ? 2 : 1); }
  __device__ int of_warp(int pass) const { return (tiles(pass) - (int)threadIdx.x / 32 + kWarps - 1) / kWarps; }
  __device__ Tile tile(const LinearArgs& a, int pass, int i) const {
    if (SWIGLU) return {i % 2, begin(pass) + i / 2};
    const int unit = begin(pass) + i;
    int m = 0;
    while (m + 1 < a.matrices && unit >= a.matrix[m + 1].first) m++;
    return {m, unit - a.matrix[m].first};
  }
};

// Brings a warp's weights from memory to its ring, in the order in which they are used.
struct Reader {
  const u8** from;  // in shared memory: of the warp's tiles
  u32 ring, slot_at;
  int pass, k, mine, offset;  // offset: of input tile k

  __device__ void begin(const LinearArgs& a, const Share& share, int k0) {
    const int lane = threadIdx.x % 32;
    k = 0;
    offset = k0 * kRecordBytes;
    if (pass == share.passes) return;
    mine = share.of_warp(pass);
    __syncwarp();
    if (lane < mine) {
      const Tile t = share.tile(a, pass, threadIdx.x / 32 + lane * kWarps);
      from[lane] = a.matrix[t.matrix].weights + (long)t.tile * a.input_tiles * kRecordBytes;
    }
    __syncwarp();
  }
  __device__ void fetch(const LinearArgs& a, const Share& share, int k0, int count, u32 stage_bytes) {
    constexpr int kChunks = (kRecordBytes - kCodeBytes) / 16;  // of scales
    if (pass < share.passes && count > 0) {
      const int lane = threadIdx.x % 32;
      const u32 to = ring + slot_at;
#pragma unroll
      for (int i = 0; i < TILES; i++) {
        if (i >= mine) break;
#pragma unroll
        for (int b = 0; b < kCodeBytes; b += 512)
          copy16_async(to + i * kWarps * kRecordBytes + b + lane * 16, from[i] + offset + b + lane * 16, true);
      }
#pragma unroll
      for (int n = 0; n < (TILES * kChunks + 31) / 32; n++) {
        const int c = lane + n * 32, i = c / kChunks, at = kCodeBytes + c % kChunks * 16;
        if (i < mine) copy16_async(to + i * kWarps * kRecordBytes + at, from[i] + offset + at, true);
      }
      offset += kRecordBytes;
      slot_at = slot_at == (STAGES - 1) * stage_bytes ? 0 : slot_at + stage_bytes;
      if (++k == count) pass++, begin(a, share, k0);
    }
    commit_copies();
  }
};

#define OUT4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
// b: the low word of a descriptor.
DEVICE void wgmma(float d[4 * NT], const u32 a[4], u32 b, int add) {
#if NT == 4
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 x;\nsetp.ne.b32 p, %21, 0;\nmov.b64 x, {%20, %22};\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15},{%16,%17,%18,%19}, x, p, 1, 1, 0;\n}"
      : OUT4(0), OUT4(4), OUT4(8), OUT4(12)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(add), "n"(kDescriptorHigh));
#else
  asm volatile(
      "{\n.reg .pred p;\n.reg .b64 x;\nsetp.ne.b32 p, %17, 0;\nmov.b64 x, {%16, %18};\n"
      "wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11},{%12,%13,%14,%15}, x, p, 1, 1, 0;\n}"
      : OUT4(0), OUT4(4), OUT4(8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b), "r"(add), "n"(kDescriptorHigh));
#endif
}

// Products of one tile's record with x, added to the sums. `while_it_runs` is done meanwhile.
template <class F>
DEVICE void multiply(const Record& record, u32 x, bool add, float acc[4 * NT], F while_it_runs) {
  u32 f[4 * PLANES][4];
#pragma unroll
  for (int g = 0; g < kGroups; g++) {
    const Scales s = scales_of(record, g);
#pragma unroll
    for (int j = g * 4 / kGroups; j < (g + 1) * 4 / kGroups; j++)
#pragma unroll
      for (int p = 0; p < PLANES; p++) fragment(record, s, p, j, f[j * PLANES + p]);
  }
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
  for (int i = 0; i < 4 * PLANES; i++) wgmma(acc, f[i], x + i / PLANES * 16, add || i > 0);
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  while_it_runs();
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  // Until here the products read f, which the compiler does not know.
#pragma unroll
  for (int i = 0; i < 4 * PLANES; i++) asm volatile("" ::"r"(f[i][0]), "r"(f[i][1]), "r"(f[i][2]), "r"(f[i][3]));
#pragma unroll
  for (int i = 0; i < 4 * NT; i++) asm volatile("" : "+f"(acc[i])::"memory");
}

// Four sums that a block adds and stores: of weight rows r, r + 8 of tile i of a pass and of rows token, token + 1 of x,
// (r, token), (r, token + 1), (r + 8, token), (r + 8, token + 1).
struct Item {
  int slot, i, r, token;
  bool here;
  __device__ Item(int e, int tiles) {
    const int rank = blockIdx.x % kSegments;
    r = e % 8, slot = e / 8 >= tiles, i = e / 8 - slot * tiles;
    token = (2 * slot + rank / 4) * 8 + rank % 4 * 2;
    here = i < tiles && 2 * slot + rank / 4 < NT;
  }
  // The segments of a dot product, added in order.
  __device__ float4 total(const float4* partial, int most) const {
    float4 sum = {};
    const float4* from = partial + (slot * kSegments * most + i) * 8 + r;
#pragma unroll
    for (int s = 0; s < kSegments; s++) {
      const float4 v = from[s * most * 8];
      sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    sum.x *= kSumScale, sum.y *= kSumScale, sum.z *= kSumScale, sum.w *= kSumScale;
    return sum;
  }
};

// Where an item's numbers go.
struct Place {
  float* out;
  const float* residual;
  int rows;
  bool here[4];
  __device__ Place(const LinearArgs& a, const Share& share, int pass, const Item& item) : here() {
    if (!item.here) return;
    const Tile t = share.tile(a, pass, item.i);
    const MatrixArgs& m = a.matrix[t.matrix];
    const int row = t.tile * 16 + item.r;
    const long at = (long)item.token * m.rows + row;
    rows = m.rows;
    out = m.out + at;
    residual = m.residual ? m.residual + at : nullptr;
#pragma unroll
    for (int n = 0; n < 4; n++) here[n] = row + n / 2 * 8 < rows && item.token + n % 2 < a.rows;
  }
  __device__ long offset(int n) const { return n % 2 * (long)rows + n / 2 * 8; }
};

// Residuals are on their way while the sums are.
DEVICE void store_sums(const LinearArgs& a, const Share& share, int pass, const float4* partial, u64* sums_here) {
  const int tiles = share.tiles(pass);
  float residual[kItems][4] = {};
#pragma unroll
  for (int n = 0; n < kItems; n++) {
    const Place to(a, share, pass, Item(threadIdx.x + n * kThreads, tiles));
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (to.here[i] && to.residual) residual[n][i] = to.residual[to.offset(i)];
  }
  barrier_wait_for_cluster(sums_here, pass % 2);
#pragma unroll
  for (int n = 0; n < kItems; n++) {
    const Item item(threadIdx.x + n * kThreads, tiles);
    if (!item.here) continue;
    const Place to(a, share, pass, item);
    const float4 sum = item.total(partial, share.most);
    const float y[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (to.here[i]) to.out[to.offset(i)] = to.residual ? y[i] + residual[n][i] : y[i];
  }
}

// With SWIGLU, lanes r and r + 1 hold numbers that lie side by side: one stores those of the first row of x, the other
// those of the second.
DEVICE void store_swiglu(const LinearArgs& a, const Share& share, int pass, const float4* partial) {
  const int pairs = share.tiles(pass) / 2;
#pragma unroll
  for (int n = 0; n < (kItems + 1) / 2; n++) {
    Item item(threadIdx.x + n * kThreads, pairs);
    float4 gate = {}, up = {};
    const int unit = item.i;
    if (item.here) {
      item.i = 2 * unit, gate = item.total(partial, share.most);
      item.i = 2 * unit + 1, up = item.total(partial, share.most);
    }
    const bool odd = item.r % 2;
    const float y[4] = {silu(gate.x) * up.x, silu(gate.y) * up.y, silu(gate.z) * up.z, silu(gate.w) * up.w};
    const int row = (share.begin(pass) + unit) * 16 + item.r - odd, token = item.token + odd;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const float got = __shfl_xor_sync(~0u, odd ? y[2 * h] : y[2 * h + 1], 1);
      const u32 both = odd ? pack_bf16(got, y[2 * h + 1]) : pack_bf16(y[2 * h], got);
      if (item.here && row + h * 8 < a.matrix[0].rows && token < a.rows)
        *(u32*)(a.tiles + tile_index(token, row + h * 8, a.tiles_rows)) = both;
    }
  }
}

KERNEL __cluster_dims__(kSegments, 1, 1) __launch_bounds__(kThreads, 1) gemv_cluster(const __grid_constant__ LinearArgs a) {
  extern __shared__ __align__(1024) u8 shared[];
  let_next_start();
  const int segment = blockIdx.x % kSegments, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int k0 = segment * a.input_tiles / kSegments, tiles = (segment + 1) * a.input_tiles / kSegments - k0;
  const Share share(a);
  // x's part, the sums that meet here, the rings (of whole warpgroups), and what is small.
  float4* partial = (float4*)(shared + a.x_bytes);
  u8* rings = (u8*)(partial + kSlots * kSegments * share.most * 8);
  const u32 stage_bytes = (share.most + 3) / 4 * 4 * kRecordBytes;
  u64 *x_here = (u64*)(rings + STAGES * stage_bytes), *sums_here = x_here + 1;
  if (threadIdx.x == 0) {
    barrier_init(x_here, 1);
    barrier_init(sums_here, 1);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_arrive();  // who has arrived can be written to
  Reader reader;
  reader.from = (const u8**)(x_here + 2) + warp * TILES;
  reader.ring = shared_address(rings) + warp * kRecordBytes;
  reader.slot_at = reader.pass = 0;
  reader.begin(a, share, k0);
  for (int i = 0; i + 1 < STAGES; i++) reader.fetch(a, share, k0, tiles, stage_bytes);

  __syncthreads();
  wait_for_previous();
  if (warp == 0) {
    if (lane == 0) barrier_expect(x_here, tiles * kXTile);
    __syncwarp();
    for (int i = lane; i < tiles; i += 32)
      copy_bulk(shared + i * kXTile, (const u8*)a.x + (long)(k0 + i) * a.x_rows * 128, kXTile, x_here);
  }
  barrier_wait(x_here, 0);
  // Where this lane's sums go: in the two blocks that have its rows of x.
  u32 to[2], told[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    to[i] = address_in(shared_address(partial + (segment * share.most + warp) * 8 + lane / 4), i * 4 + lane % 4);
    told[i] = address_in(shared_address(sums_here), i * 4 + lane % 4);
  }
  const u32 codes = kept(shared_address(rings) + warp * kRecordBytes + lane * 16);
  const u32 scales = kept(shared_address(rings) + warp * kRecordBytes + kCodeBytes + lane / 4 * 8);
  u32 slot_at = 0;
#pragma unroll 1
  for (int pass = 0; pass < share.passes; pass++) {
    const int now = share.tiles(pass), mine = share.of_warp(pass), ours = (now - warp / 4 * 4 + kWarps - 1) / kWarps;
    if (threadIdx.x == 0)  // what this block will be sent: its slots of all tiles and segments
      barrier_expect(sums_here, (NT - segment / 4 + 1) / 2 * now * kSegments * 128);
    float acc[TILES][4 * NT] = {};
    u32 x = kept((u32)descriptor(shared_address(shared)));
#pragma unroll 1
    for (int k = 0; k < tiles; k++) {
      wait_copies<STAGES - 2>();
      __syncwarp();  // the slot is filled, and the one before is used
      reader.fetch(a, share, k0, tiles, stage_bytes);
      Record record;
      const auto read = [&](int i) {
        const u32 at = slot_at + i * kWarps * kRecordBytes;
        read_record(codes + at, scales + at, record);
      };
      if (ours > 0) read(0);
#pragma unroll
      for (int i = 0; i < TILES; i++) {
        if (i >= ours) break;
        multiply(record, x, k > 0, acc[i], [&] {
          if (i + 1 < TILES && i + 1 < ours) read(i + 1);
        });
      }
      slot_at = slot_at == (STAGES - 1) * stage_bytes ? 0 : slot_at + stage_bytes;
      x += kXTile / 16;
    }
    cluster_wait();  // the sums before are used
#pragma unroll
    for (int i = 0; i < TILES; i++) {
      if (i >= mine) break;
#pragma unroll
      for (int t = 0; t < NT; t++)
        store_in(to[t % 2] + (t / 2 * kSegments * share.most + i * kWarps) * 128, acc[i] + 4 * t, told[t % 2]);
    }
    if (SWIGLU) {
      barrier_wait_for_cluster(sums_here, pass % 2);
      store_swiglu(a, share, pass, partial);
    } else {
      store_sums(a, share, pass, partial, sums_here);
    }
    if (pass + 1 < share.passes) cluster_arrive();  // what was read here is in registers
  }
}
