find_library(XXHASH_LIBRARY xxhash REQUIRED)  # prefix_key.cc, record.cc
find_library(ZMQ_LIBRARY zmq REQUIRED)  # kv_events.cc
target_link_libraries(anabranch_cache PRIVATE ${XXHASH_LIBRARY} ${ZMQ_LIBRARY})
