# Links to the headers: the folder around them has those of this machine's C library, too.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
foreach(folder fmt spdlog nlohmann)
  file(CREATE_LINK /usr/include/${folder} ${CMAKE_BINARY_DIR}/include/${folder} SYMBOLIC)
endforeach()
add_library(fmt::fmt INTERFACE IMPORTED)
target_include_directories(fmt::fmt SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/include)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
