# Builds the parts of xgrammar that src/ calls, from the source that script/bootstrap unpacks (.deps/xgrammar-source), or
# from wherever XGRAMMAR_SOURCE points. Left out: its converters of other notations (cmake/xgrammar_absent.cc stands for
# them) and its Python bindings. -O1 in two large files takes a quarter of the time of its own build, and masks are as fast.
set(XGRAMMAR_SOURCE ${CMAKE_SOURCE_DIR}/.deps/xgrammar-source CACHE PATH "Source of xgrammar")
if(NOT EXISTS ${XGRAMMAR_SOURCE}/cpp)
  message(FATAL_ERROR "xgrammar was not found. Run script/bootstrap first (or pass -DXGRAMMAR_SOURCE=...).")
endif()
set(_matching compiled_grammar earley_parser fsm fsm_builder grammar_compiler grammar_matcher tokenizer_info)
set(_grammars config grammar grammar_builder grammar_functor grammar_parser grammar_printer suffix_automata
              support/logging support/recursion_guard)
# Places in its source where a compilation can be stopped, and counts what it takes (cmake/xgrammar_stop.h).
function(_with_stops name before after)
  set(file ${CMAKE_BINARY_DIR}/xgrammar/${name}.cc)
  file(READ ${XGRAMMAR_SOURCE}/cpp/${name}.cc text)
  string(FIND "${text}" "${before}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "xgrammar's ${name}.cc has no '${before}' any more: cmake/FindXgrammar.cmake must follow it")
  endif()
  string(REPLACE "${before}" "${after}" text "${text}")
  file(CONFIGURE OUTPUT ${file} CONTENT "#include \"xgrammar_stop.h\"\n@text@" @ONLY)
endfunction()
_with_stops(earley_parser "bool EarleyParser::Advance(const uint8_t ch, bool debug_print) {"
            "bool EarleyParser::Advance(const uint8_t ch, bool debug_print) {\n  xgrammar_stop::check();")
_with_stops(grammar_compiler "thread_pool->Execute([add_adaptive_token_mask, state, is_root_rule]() {"
            "thread_pool->Execute([add_adaptive_token_mask, state, is_root_rule, current = xgrammar_stop::current]() {
        const xgrammar_stop::Scope scope(current);
        xgrammar_stop::check();")
_with_stops(grammar_builder "int32_t GrammarBuilder::AddGrammarExpr(const GrammarExpr& grammar_expr) {"
            "int32_t GrammarBuilder::AddGrammarExpr(const GrammarExpr& grammar_expr) {
  xgrammar_stop::take(2 + grammar_expr.data_len);")
_with_stops(grammar_functor "info.suffix_after_first_occurrence.assign("
            "xgrammar_stop::take(sequence_expr.size());
            info.suffix_after_first_occurrence.assign(")
list(TRANSFORM _matching REPLACE "(.+)" "${XGRAMMAR_SOURCE}/cpp/\\1.cc")
list(TRANSFORM _grammars REPLACE "(.+)" "${XGRAMMAR_SOURCE}/cpp/\\1.cc")
list(TRANSFORM _matching REPLACE ".+/(earley_parser|grammar_compiler)\\.cc" "${CMAKE_BINARY_DIR}/xgrammar/\\1.cc")
list(TRANSFORM _grammars REPLACE ".+/(grammar_builder|grammar_functor)\\.cc" "${CMAKE_BINARY_DIR}/xgrammar/\\1.cc")
list(APPEND _grammars ${CMAKE_SOURCE_DIR}/cmake/xgrammar_absent.cc)
add_library(xgrammar STATIC ${_matching} ${_grammars})
set_source_files_properties(${_matching} PROPERTIES UNITY_GROUP matching)
set_source_files_properties(${_grammars} PROPERTIES UNITY_GROUP grammars)
# Without our warnings and sanitizers.
set_target_properties(xgrammar PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP CXX_STANDARD 17 COMPILE_OPTIONS "-O1;-w")
target_include_directories(xgrammar SYSTEM PUBLIC ${XGRAMMAR_SOURCE}/include ${XGRAMMAR_SOURCE}/3rdparty/dlpack/include
                                  ${CMAKE_SOURCE_DIR}/cmake
                           PRIVATE ${XGRAMMAR_SOURCE}/3rdparty/picojson ${XGRAMMAR_SOURCE}/cpp)
target_compile_definitions(xgrammar PRIVATE XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
