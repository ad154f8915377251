target_link_libraries(anabranch_decode PRIVATE xgrammar)  # grammar.cc
