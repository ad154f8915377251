# Flags of the per-target kernel files. They define nothing but static functions in their own namespaces
# (ops/cpu/kernels.inl), so no code compiled with these flags can run on a machine that lacks the instructions.
set(_cpu ${CMAKE_CURRENT_SOURCE_DIR}/ops/cpu)
# The kernels are vectorised by hand: the compiler's own vectoriser finds nothing in them and takes minutes to say so.
# Fuzzing never runs them, so there they only have to compile quickly.
set(_kernel_options -O2 -fno-tree-vectorize)
if(ANABRANCH_FUZZ)
  set(_kernel_options -O0 -fno-sanitize=all)
endif()
function(_anabranch_kernel_flags file)
  set_source_files_properties(${_cpu}/${file} TARGET_DIRECTORY anabranch_ops
                              PROPERTIES COMPILE_OPTIONS "${_kernel_options};${ARGN}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(_avx2 -mavx2 -mfma -mf16c)
  set(_avx512 ${_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND _avx512 -Wno-maybe-uninitialized)  # GCC 12 warns about its own _mm512_undefined_ps
  endif()
  _anabranch_kernel_flags(target_avx512vnni.cc ${_avx512} -mavx512vnni)
  _anabranch_kernel_flags(target_avx512.cc ${_avx512})
  _anabranch_kernel_flags(target_avx2.cc ${_avx2})
endif()
_anabranch_kernel_flags(target_neon.cc)
_anabranch_kernel_flags(target_portable.cc)
