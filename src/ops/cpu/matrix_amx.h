// Matrix units of x86: AMX tiles of int8. Included only through kernels_matrix.inl.
//
// A matrix unit adds the product of 16 rows of activations and a block of 16 lanes' codes to 16 x 16 sums, in
// registers with numbers: 0 and 1 hold rows, 2 and 3 codes, 4 to 7 sums. Memory that an instruction reads or
// writes is an operand of its statement; with the compilers' own functions, stores to it may be left out.

struct MatrixShapes {
  uint8_t palette, start_row, unused[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
// For products of `inputs` inputs.
constexpr MatrixShapes matrix_shapes(int inputs) {
  const auto n = static_cast<uint16_t>(inputs);
  const auto quads = static_cast<uint8_t>(inputs / 4);
  return {1, 0, {}, {n, n, 64, 64, 64, 64, 64, 64}, {16, 16, quads, quads, 16, 16, 16, 16}};
}
alignas(64) static constexpr MatrixShapes kMatrixShapes[2] = {matrix_shapes(32), matrix_shapes(64)};

// Prepares the calling thread for products of 32 or 64 inputs at a time.
FN void open_matrix(int inputs) {
  asm volatile("ldtilecfg %0" : : "m"(kMatrixShapes[inputs / 64]));
}
FN void close_matrix() {
  asm volatile("tilerelease");
}

// Rows are `stride` bytes apart.
template <int R>
FN void matrix_rows(const int8_t* p, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(p), "r"(stride), "i"(R), "m"(*reinterpret_cast<const int8_t(*)[1024]>(p)));
}
// Codes: [inputs / 4][16 lanes][4].
template <int R>
FN void matrix_codes(const uint8_t* p) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
               :
               : "r"(p), "r"(int64_t{64}), "i"(R), "m"(*reinterpret_cast<const uint8_t(*)[1024]>(p)));
}
template <int R>
FN void matrix_clear() {
  asm volatile("tilezero %%tmm%c0" : : "i"(R));
}
// Adds the product of rows in A with codes in B, which are signed or unsigned bytes, to sums in C.
template <int C, int A, int B, bool Signed>
FN void matrix_multiply() {
  if constexpr (Signed)
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
  else
    asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B));
}
// Sums: [16 rows][16 lanes].
template <int R>
FN void matrix_store(int32_t* p) {
  asm volatile("tilestored %%tmm%c3, (%1,%2,1)"
               : "=m"(*reinterpret_cast<int32_t(*)[256]>(p))
               : "r"(p), "r"(int64_t{64}), "i"(R));
}
