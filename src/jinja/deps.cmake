find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)  # unicode.cc
target_link_libraries(anabranch_jinja PRIVATE ${UTF8PROC_LIBRARY})
