# turn_memory.cc (SQLite), request_words.cc (utf8proc).
find_package(SQLiteCpp REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
target_link_libraries(anabranch_chat PRIVATE SQLiteCpp ${UTF8PROC_LIBRARY})
