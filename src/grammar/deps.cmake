target_link_libraries(anabranch_grammar PRIVATE xgrammar)  # grammar.cc
