// A matrix unit in plain C++, with the functions of ops/cpu/matrix_amx.h.
struct MatrixRegister {
  int8_t bytes[16][64];
};
struct MatrixUnit {
  int inputs = 0;  // 0: closed
  int64_t opened = 0;
  MatrixRegister registers[4];
  int32_t sums[4][16][16];
};
static MatrixUnit& matrix_unit() {
  static thread_local MatrixUnit unit;
  return unit;
}

static void open_matrix(int inputs) {
  MatrixUnit& unit = matrix_unit();
  if (unit.inputs != 0) __builtin_trap();
  const int64_t opened = unit.opened + 1;
  unit = {};
  unit.inputs = inputs;
  unit.opened = opened;
}
static void close_matrix() {
  matrix_unit().inputs = 0;
}

template <int R>
void matrix_rows(const int8_t* p, int64_t stride) {
  MatrixUnit& unit = matrix_unit();
  for (int i = 0; i < 16; i++)
    __builtin_memcpy(unit.registers[R].bytes[i], p + i * stride, static_cast<uint64_t>(unit.inputs));
}
template <int R>
void matrix_codes(const uint8_t* p) {
  MatrixUnit& unit = matrix_unit();
  for (int i = 0; i < unit.inputs / 4; i++) __builtin_memcpy(unit.registers[R].bytes[i], p + i * 64, 64);
}
template <int R>
void matrix_clear() {
  __builtin_memset(matrix_unit().sums[R - 4], 0, sizeof(matrix_unit().sums[0]));
}
template <int C, int A, int B, bool Signed>
void matrix_multiply() {
  MatrixUnit& unit = matrix_unit();
  if (unit.inputs == 0) __builtin_trap();
  for (int i = 0; i < 16; i++)
    for (int lane = 0; lane < 16; lane++)
      for (int k = 0; k < unit.inputs; k++) {
        const int8_t code = unit.registers[B].bytes[k / 4][4 * lane + k % 4];
        unit.sums[C - 4][i][lane] +=
            unit.registers[A].bytes[i][k] * (Signed ? int{code} : int{static_cast<uint8_t>(code)});
      }
}
template <int R>
void matrix_store(int32_t* p) {
  __builtin_memcpy(p, matrix_unit().sums[R - 4], 1024);
}
