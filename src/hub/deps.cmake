find_package(OpenSSL 3 REQUIRED)  # digest.cc
find_package(simdjson REQUIRED)  # weight_map.cc: thousands of keys in one object
target_link_libraries(anabranch_hub PRIVATE OpenSSL::Crypto simdjson::simdjson)
