# libjpeg-turbo (jpeg.cc), libpng (png.cc), libwebp (webp.cc).
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_library(WEBP_LIBRARY webp REQUIRED)
find_path(WEBP_INCLUDE webp/decode.h REQUIRED)
target_link_libraries(anabranch_images PRIVATE JPEG::JPEG PNG::PNG ${WEBP_LIBRARY})
target_include_directories(anabranch_images PRIVATE ${WEBP_INCLUDE})
foreach(_loops resize orientation processor)  # for the compiler's vectoriser
  set_source_files_properties(${CMAKE_SOURCE_DIR}/src/images/${_loops}.cc TARGET_DIRECTORY anabranch_images
                              PROPERTIES COMPILE_OPTIONS -O3 SKIP_PRECOMPILE_HEADERS ON)
endforeach()
