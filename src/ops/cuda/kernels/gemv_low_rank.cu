KERNEL __launch_bounds__(kThreads, 1) gemv_low_rank(const __grid_constant__ AdaptedLinearArgs a) {
  multiply_units(a.linear, &a.adds);
}
