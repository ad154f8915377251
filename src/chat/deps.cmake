# turn_memory.cc (SQLite), request_words.cc (utf8proc).
find_package(SQLiteCpp REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
target_link_libraries(anabranch_chat PRIVATE SQLiteCpp ${UTF8PROC_LIBRARY})
# think_words.txt becomes text in the program.
set(think_words ${CMAKE_CURRENT_SOURCE_DIR}/chat/think_words.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${think_words})
file(READ ${think_words} THINK_WORDS)
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/chat/think_words.cc.in ${CMAKE_BINARY_DIR}/chat/think_words.cc @ONLY)
target_sources(anabranch_chat PRIVATE ${CMAKE_BINARY_DIR}/chat/think_words.cc)
