# The op tests for 64-bit Arm, built elsewhere and run by qemu-user: script/test-neon (Debian: g++-aarch64-linux-gnu
# qemu-user). The libraries that they need are header-only, from this machine's own packages (cmake/cross).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
foreach(package fmt spdlog GTest)
  set(${package}_DIR ${CMAKE_CURRENT_LIST_DIR}/cross)
endforeach()
