find_package(simdjson REQUIRED)  # safetensors headers and indices: thousands of keys in one object
find_library(XXHASH_LIBRARY xxhash REQUIRED)  # adapter_file.cc
target_link_libraries(anabranch_checkpoint PRIVATE simdjson::simdjson ${XXHASH_LIBRARY})
foreach(_loops quantize affine dense gguf_blocks gguf_encode gguf_fit quantized/gptq quantized/float4)  # for the compiler's vectoriser
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/checkpoint/${_loops}.cc TARGET_DIRECTORY anabranch_checkpoint
                              PROPERTIES COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
endforeach()
