find_package(simdjson REQUIRED)  # safetensors headers and indices: thousands of keys in one object
target_link_libraries(anabranch_checkpoint PRIVATE simdjson::simdjson)
