# Encodes strings for tools/check_tokenizers.py, which compares them with Hugging Face's tokenizers. Built on demand.
add_executable(encode_tool EXCLUDE_FROM_ALL tokenizer/encode_tool.cc)
target_link_libraries(encode_tool PRIVATE anabranch_tokenizer)
target_include_directories(encode_tool PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
