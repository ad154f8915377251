KERNEL __launch_bounds__(kThreads, 1) gemv(const __grid_constant__ LinearArgs a) { multiply_units(a, nullptr); }
