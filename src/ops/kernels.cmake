# Flags of the per-target kernel files. They define nothing but static functions in their own namespaces
# (ops/cpu/kernels.inl), so no code compiled with these flags can run on a machine that lacks the instructions.
set(_cpu ${CMAKE_CURRENT_SOURCE_DIR}/ops/cpu)
# The kernels are vectorised by hand: the compiler's own vectoriser finds nothing in them and takes minutes to say so.
set(_kernel_options -O2 -fno-tree-vectorize)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Both move additions away from where they are written; their operands stay alive and are spilled: half the speed.
  list(APPEND _kernel_options -fno-tree-ter -fno-tree-reassoc)
endif()
if(ANABRANCH_SANITIZE)
  # Vectors are everywhere and seldom outlive their scope; checking each as that needs takes minutes for each target.
  set(_kernel_options -O1 -fno-tree-vectorize -DANABRANCH_SIMD_CALLS -fno-sanitize=null,object-size,pointer-overflow
                      -fno-sanitize-address-use-after-scope)
endif()
function(_anabranch_kernel_flags file)
  set_source_files_properties(${_cpu}/${file} TARGET_DIRECTORY anabranch_ops
                              PROPERTIES COMPILE_OPTIONS "${_kernel_options};${ARGN}" SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# A file compiled without its flags offers no kernels. Leaving some out makes a build quicker (sanitizers, daily work);
# what a machine cannot use of the others it never runs.
set(ANABRANCH_X86_TARGETS avx512amx avx512vnni avx512 avx2 CACHE STRING "CPU kernels to compile beside the portable ones, on x86")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(_avx2 -mavx2 -mfma -mf16c)
  set(_avx512 ${_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND _avx512 -Wno-maybe-uninitialized -Wno-uninitialized)  # GCC 12 warns about its own _mm512_undefined_ps
  endif()
  set(_flags_avx512vnni ${_avx512} -mavx512vnni)
  set(_flags_avx512amx ${_flags_avx512vnni} -mamx-tile -mamx-int8)
  set(_flags_avx512 ${_avx512})
  set(_flags_avx2 ${_avx2})
  foreach(_target ${ANABRANCH_X86_TARGETS})
    if(NOT DEFINED _flags_${_target})
      message(FATAL_ERROR "ANABRANCH_X86_TARGETS: ${_target} is not one of avx512amx, avx512vnni, avx512, avx2")
    endif()
    _anabranch_kernel_flags(target_${_target}.cc ${_flags_${_target}})
  endforeach()
endif()
_anabranch_kernel_flags(target_neon.cc)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(_dotprod -march=armv8.2-a+dotprod)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(_dotprod -Xclang -target-feature -Xclang +dotprod)  # zig has a meaning of its own for -march
  endif()
  _anabranch_kernel_flags(target_neon_dotprod.cc ${_dotprod})
endif()
_anabranch_kernel_flags(target_portable.cc)

# MLX's ops, and Metal's kernels as text for MLX to compile (ops/metal/kernel.h). A build without MLX has one file
# instead.
get_target_property(_sources anabranch_ops SOURCES)
if(ANABRANCH_REFERENCE)
  list(FILTER _sources EXCLUDE REGEX "/ops/no_reference\\.cc$")
else()
  list(FILTER _sources EXCLUDE REGEX "/ops/(reference|metal)/")
endif()
set_target_properties(anabranch_ops PROPERTIES SOURCES "${_sources}")
if(ANABRANCH_REFERENCE)
  set(_metal_text ${CMAKE_BINARY_DIR}/metal_kernel_text.cc)
  set(_entries "")
  foreach(_name gemv delta_scan)
    set(_path ${CMAKE_CURRENT_SOURCE_DIR}/ops/metal/kernels/${_name}.metal)
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_path})
    file(READ ${_path} _text)
    string(APPEND _entries "  if (kernel == \"${_name}\") return R\"metal(${_text})metal\";\n")
  endforeach()
  file(CONFIGURE OUTPUT ${_metal_text} @ONLY CONTENT "// Made by src/ops/kernels.cmake.
#include \"ops/metal/kernel.h\"

std::string_view anabranch::ops::metal::kernel_text(std::string_view kernel) {
@_entries@  return {};
}
")
  target_sources(anabranch_ops PRIVATE ${_metal_text})
endif()

# The CUDA kernels' sources travel in the program as text, for NVRTC (ops/cuda/compiler.h).
set(_kernel_text ${CMAKE_BINARY_DIR}/cuda_kernel_text.cc)
file(GLOB _cuda_kernels RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}/ops/cuda/kernels CONFIGURE_DEPENDS
     ${CMAKE_CURRENT_SOURCE_DIR}/ops/cuda/kernels/*)
set(_entries "")
foreach(_file draw.h ${_cuda_kernels})
  set(_path ${CMAKE_CURRENT_SOURCE_DIR}/ops/cuda/kernels/${_file})
  if(_file STREQUAL "draw.h")
    set(_path ${CMAKE_CURRENT_SOURCE_DIR}/ops/draw.h)
  endif()
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_path})
  file(READ ${_path} _text)
  string(REPLACE "#pragma once" "" _text "${_text}")
  string(APPEND _entries "    {\"${_file}\", R\"cuda(${_text})cuda\"},\n")
endforeach()
file(CONFIGURE OUTPUT ${_kernel_text} @ONLY CONTENT "// Made by src/ops/kernels.cmake.
#include \"ops/cuda/compiler.h\"

namespace anabranch::ops::cuda {

std::string_view kernel_text(std::string_view file) {
  static const struct {
    std::string_view name, text;
  } files[] = {
@_entries@  };
  for (const auto& f : files)
    if (f.name == file) return f.text;
  return {};
}

}  // namespace anabranch::ops::cuda
")
target_sources(anabranch_ops PRIVATE ${_kernel_text})
target_link_libraries(anabranch_ops PUBLIC ${CMAKE_DL_LIBS})
