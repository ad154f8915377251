set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Asserts are our own CHECK, always on.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(ANABRANCH_COLD_OPTIONS $<$<CONFIG:Release>:-O1>)
# The same result on every machine: the compiler must not fuse or reorder floating point on its own.
add_compile_options(-Wall -Wextra -Wno-missing-field-initializers -ffp-contract=off)
# What the system offers against errors in our own code. The kernels (src/ops) do without: they see no outside bytes.
if(NOT ANABRANCH_SANITIZE AND NOT ANABRANCH_FUZZ)
  set(ANABRANCH_HARDENING $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2> -fstack-protector-strong)
  if(CMAKE_SYSTEM_NAME STREQUAL Linux)
    list(APPEND ANABRANCH_HARDENING -fstack-clash-protection)
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
      list(APPEND ANABRANCH_HARDENING -fcf-protection)
    endif()
    add_link_options(-Wl,-z,relro,-z,now)
  endif()
endif()
if(ANABRANCH_SANITIZE)
  # GCC takes a fifth longer with two checks that AddressSanitizer's cover.
  add_compile_options(-fsanitize=${ANABRANCH_SANITIZE} $<$<CXX_COMPILER_ID:GNU>:-fno-sanitize=null,object-size>
                      -fno-sanitize-recover=all -O1 -g1 -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ANABRANCH_SANITIZE})
endif()
if(ANABRANCH_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link -O1)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the clone, so that a second clone finds what the first one compiled. Results are found by their
  # files' bytes: preprocessed text would not tell a header whose comments changed, and GCC refuses the header beside a
  # precompiled one that has other bytes.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD AND NOT APPLE AND NOT CMAKE_CROSSCOMPILING)
  add_link_options(-fuse-ld=mold)
endif()

# Headers that cost tenths of a second in every file are compiled once for each set of flags.
set(ANABRANCH_HEADERS <algorithm> <array> <atomic> <chrono> <cmath> <condition_variable> <deque> <filesystem> <functional>
    <map> <memory> <mutex> <optional> <set> <span> <string> <thread> <unordered_map> <variant> <vector>
    <fmt/format.h> <base/json.h>)

# anabranch_precompile(TARGET KIND HEADER...): the first target of a KIND compiles these headers beside the common ones;
# the others use its result. The options are for ccache.
function(anabranch_precompile target kind)
  get_property(owner GLOBAL PROPERTY ANABRANCH_PRECOMPILED_${kind})
  if(owner)
    target_precompile_headers(${target} REUSE_FROM ${owner})
  else()
    target_precompile_headers(${target} PRIVATE ${ANABRANCH_HEADERS} ${ARGN})
    set_property(GLOBAL PROPERTY ANABRANCH_PRECOMPILED_${kind} ${target})
  endif()
  target_compile_options(${target} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>"
                                           "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>")
endfunction()

# Several files in one compiler run: a whole build takes 40 % less time, a build after an edit more.
option(ANABRANCH_UNITY "Compile groups of files as one (for builds from scratch)" OFF)
if(ANABRANCH_UNITY)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()

# anabranch_unity(TARGET): groups the target's sources (cmake/unity_groups.py says how). Files with flags of their own
# stay alone.
function(anabranch_unity target)
  if(NOT ANABRANCH_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  execute_process(COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/cmake/unity_groups.py ${sources}
                  OUTPUT_VARIABLE lines COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${lines}")
  foreach(line ${lines})
    string(REPLACE "\t" ";" line "${line}")
    list(GET line 0 file)
    list(GET line 1 group)
    set_source_files_properties(${file} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # GCC takes each file for a header, and inlines more than its own warnings can follow. Builds file by file have them.
  target_compile_options(${target} PRIVATE
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;-Wno-maybe-uninitialized;-Wno-stringop-overflow;-Wno-array-bounds>")
endfunction()

# anabranch_library(name [COLD] DEPS ...): library anabranch_<name> from src/<name>/ (and its subfolders). A / in the name
# becomes _ in the target's: server/http makes anabranch_server_http.
# A DEPS entry that names another folder links that folder's library. COLD: runs so seldom that a quick compilation counts
# for more than quick code.
function(anabranch_library name)
  cmake_parse_arguments(A "COLD" "" "DEPS" ${ARGN})
  string(REPLACE / _ target anabranch_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")  # tests have their own
  if(sources)
    add_library(${target} STATIC ${sources})
    anabranch_unity(${target})
    set(scope PUBLIC)
    if(name STREQUAL ops)
      anabranch_precompile(${target} kernels)
    else()
      target_compile_options(${target} PRIVATE ${ANABRANCH_HARDENING})
      if(A_COLD)
        target_compile_options(${target} PRIVATE ${ANABRANCH_COLD_OPTIONS})
        anabranch_precompile(${target} cold)
      else()
        anabranch_precompile(${target} hot)
      endif()
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${CMAKE_SOURCE_DIR}/src)
  foreach(dep ${A_DEPS})
    if(IS_DIRECTORY ${CMAKE_SOURCE_DIR}/src/${dep})
      string(REPLACE / _ dep anabranch_${dep})
      target_link_libraries(${target} ${scope} ${dep})
    else()
      target_link_libraries(${target} ${scope} ${dep})
    endif()
  endforeach()
endfunction()

# anabranch_tests(folder DEPS ...): one GoogleTest binary test_<folder> from tests/<folder>/*_test.cc.
function(anabranch_tests folder)
  cmake_parse_arguments(A "" "" "DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${folder}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${folder} ${sources})
  anabranch_unity(test_${folder})
  target_link_libraries(test_${folder} PRIVATE ${A_DEPS} GTest::gtest_main)
  target_compile_options(test_${folder} PRIVATE ${ANABRANCH_COLD_OPTIONS})
  anabranch_precompile(test_${folder} tests <gtest/gtest.h>)
  target_include_directories(test_${folder} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(test_${folder} PRIVATE ANABRANCH_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${folder} COMMAND test_${folder})
endfunction()
