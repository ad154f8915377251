// Small exchanges between devices use lines of 16 bytes; half of a line is the number of its exchange. A
// receiver polls the lines themselves, so the sender never has to wait for its writes to arrive (the
// low-latency protocol of NVIDIA's NCCL).
struct Line {
  u32 first, epoch1, second, epoch2;
};
DEVICE void send(void* to, u32 first, u32 second, u32 epoch) {
  store_shared_line(to, make_uint4(first, epoch, second, epoch));
}

// If a rank has failed, or nothing arrives for ten minutes, this rank must fail too, because later results
// would be wrong.
DEVICE void check_time(u64 begin, const unsigned* failed) {
  if (*(const volatile unsigned*)failed || nanoseconds() - begin > 600000000000ull) trap();
}

// Waits for COUNT lines, which are `stride` lines apart.
template <int COUNT>
DEVICE void receive(const void* from, long stride, u32 epoch, const unsigned* failed, uint2 (&words)[COUNT]) {
  u64 begin = 0;
  for (int i = 1;; i++) {
    uint4 line[COUNT];
    bool here = true;
#pragma unroll
    for (int l = 0; l < COUNT; l++) line[l] = load_shared_line((const Line*)from + l * stride);
#pragma unroll
    for (int l = 0; l < COUNT; l++) {
      here = here && line[l].y == epoch && line[l].w == epoch;
      words[l].x = line[l].x, words[l].y = line[l].z;
    }
    if (here) return;
    if (i % 4096 != 0) continue;
    if (begin == 0) begin = nanoseconds();
    check_time(begin, failed);
  }
}
