// Rows of a recurrent layer's convolution.

// The input row of a span's token t. Below 0: a row before the span, of a replayed token or of the
// convolution's state. rows: the channels' width.
DEVICE float earlier_row(const DeltaSpan& s, int t, int taps, int channels, int channel) {
  const int replayed = t + s.replay;
  return replayed >= 0 ? s.from.rows[(long)replayed * channels + channel]
                       : s.conv_in[(long)(replayed + taps - 1) * channels + channel];
}
// Whether the thread for token t also stores the convolution's state after the span: the last of its tokens,
// or the first one of a draft, after which the state has the replayed tokens.
DEVICE bool stores_conv(const DeltaSpan& s, int t) {
  const bool draft = s.entry >= 0;
  return draft ? s.fold && t == 0 : t == max(s.count - 1, 0);
}
// row(t): a channel's input of token t, also for t < 0.
template <class Row>
DEVICE void store_conv(const DeltaSpan& s, int taps, int channels, int channel, const Row& row) {
  const int applied = s.entry >= 0 ? 0 : s.count;
  for (int j = 0; j < taps - 1; j++)
    s.conv_out[(long)j * channels + channel] = row(applied - (taps - 1) + j);
}
// The sum over taps, oldest first, from the bias on.
template <class Row>
DEVICE float convolved(const float* weight, const float* bias, int taps, int channels, int channel, int t,
                       const Row& row) {
  float sum = bias ? bias[channel] : 0.0f;
  for (int j = 0; j < taps; j++)
    sum = __fmaf_rn(weight[(long)j * channels + channel], row(t - (taps - 1) + j), sum);
  return sum;
}
