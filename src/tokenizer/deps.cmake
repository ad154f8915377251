# PCRE2 (regex.cc), utf8proc (normalizer.cc), simdjson (tokenizer_json.cc).
find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
find_package(simdjson REQUIRED)
target_link_libraries(anabranch_tokenizer PRIVATE ${PCRE2_LIBRARY} ${UTF8PROC_LIBRARY} simdjson::simdjson)
