find_library(XXHASH_LIBRARY xxhash REQUIRED)  # prefix_key.cc, record.cc
target_link_libraries(anabranch_cache PRIVATE ${XXHASH_LIBRARY})
