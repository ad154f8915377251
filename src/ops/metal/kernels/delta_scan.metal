// The gated delta rule (ops/recurrence.h) over T tokens of one sequence: reads the state once, applies FOLDS entries
// of the window to it for good, then OPEN more and the tokens on their own account; ADVANCE: for good, too. So s_out
// is written once. q, k [T, HK, DK] normalised, v [T, HV, DV], qk [T, HK] = q . k, decay and beta [T, HV]; entries:
// entry_k [E, HK, DK], entry_delta [E, HV, DV], entry_decay [E, HV], those to fold first; s [HV, DK, DV].
// -> y and delta [T, HV, DV], s_out.
// A threadgroup has 32 columns of a head's state, a thread DK / PARTS rows of one column. With r = S k before a token:
//   delta = beta (v - decay r);  y = decay S q + (q . k) delta;  S = decay S + k delta
// DK: a multiple of PARTS, at most 256.
constexpr int PARTS = 8;
const int ROWS = DK / PARTS, T = q_shape[0];
const int column = thread_position_in_threadgroup.x, part = thread_position_in_threadgroup.y;
const int head = thread_position_in_grid.z, key_head = head / (HV / HK);
const bool inside = int(thread_position_in_grid.x) < DV;
const int dv = inside ? int(thread_position_in_grid.x) : 0, state_at = (head * DK + part * ROWS) * DV + dv;
threadgroup float reads[2][2][PARTS][32];  // [token's parity][k or q][part][column]

float state[32];
for (int i = 0; i < ROWS; i++) state[i] = s[state_at + i * DV];
for (int e = 0;; e++) {
  if (e == FOLDS && !ADVANCE && inside)
    for (int i = 0; i < ROWS; i++) s_out[state_at + i * DV] = state[i];
  if (e == FOLDS + OPEN) break;
  const float g = entry_decay[e * HV + head], d = entry_delta[(e * HV + head) * DV + dv];
  const int k_at = (e * HK + key_head) * DK + part * ROWS;
  for (int i = 0; i < ROWS; i++) state[i] = g * state[i] + entry_k[k_at + i] * d;
}

for (int t = 0; t < T; t++) {
  const int k_at = (t * HK + key_head) * DK + part * ROWS, v_at = (t * HV + head) * DV + dv;
  float with_k = 0, with_q = 0;
  for (int i = 0; i < ROWS; i++) {
    with_k += state[i] * k[k_at + i];
    with_q += state[i] * q[k_at + i];
  }
  reads[t & 1][0][part][column] = with_k;
  reads[t & 1][1][part][column] = with_q;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  with_k = with_q = 0;
  for (int p = 0; p < PARTS; p++) {
    with_k += reads[t & 1][0][p][column];
    with_q += reads[t & 1][1][p][column];
  }
  const float g = decay[t * HV + head], d = beta[t * HV + head] * (v[v_at] - g * with_k);
  for (int i = 0; i < ROWS; i++) state[i] = g * state[i] + k[k_at + i] * d;
  if (part == 0 && inside) {
    delta[v_at] = d;
    y[v_at] = g * with_q + qk[t * HK + key_head] * d;
  }
}
if (ADVANCE && inside)
  for (int i = 0; i < ROWS; i++) s_out[state_at + i * DV] = state[i];
