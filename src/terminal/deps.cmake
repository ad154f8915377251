# libedit (line_editor.cc), utf8proc (characters.cc).
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
target_link_libraries(anabranch_terminal PRIVATE edit ${UTF8PROC_LIBRARY})
