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
# What is changed in its source: places where a compilation can be stopped, which count what it takes
# (cmake/xgrammar_stop.h), and rules that count (cmake/xgrammar_counts.h).
function(_change name before after)
  if(NOT DEFINED _text_${name})
    file(READ ${XGRAMMAR_SOURCE}/cpp/${name} _text_${name})
  endif()
  string(FIND "${_text_${name}}" "${before}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "xgrammar's ${name} has no '${before}' any more: cmake/FindXgrammar.cmake must follow it")
  endif()
  string(REPLACE "${before}" "${after}" changed "${_text_${name}}")
  set(_text_${name} "${changed}" PARENT_SCOPE)
endfunction()
_change(earley_parser.cc "bool EarleyParser::Advance(const uint8_t ch, bool debug_print) {"
        "bool EarleyParser::Advance(const uint8_t ch, bool debug_print) {\n  xgrammar_stop::check();")
_change(grammar_compiler.cc "thread_pool->Execute([add_adaptive_token_mask, state, is_root_rule]() {"
        "thread_pool->Execute([add_adaptive_token_mask, state, is_root_rule, current = xgrammar_stop::current]() {
        const xgrammar_stop::Scope scope(current);
        xgrammar_stop::check();")
_change(grammar_builder.cc "int32_t GrammarBuilder::AddGrammarExpr(const GrammarExpr& grammar_expr) {"
        "int32_t GrammarBuilder::AddGrammarExpr(const GrammarExpr& grammar_expr) {
  xgrammar_stop::take(2 + grammar_expr.data_len);")
_change(grammar_functor.cc "info.suffix_after_first_occurrence.assign("
        "xgrammar_stop::take(sequence_expr.size());
            info.suffix_after_first_occurrence.assign(")

_change(earley_parser.h "#include \"support/utils.h\"\n" "#include \"support/utils.h\"\n#include \"xgrammar_counts.h\"\n")
_change(earley_parser.h "  bool has_char_budget_rules_ = false;\n"
        "  bool has_char_budget_rules_ = false;\n  xgrammar_counts::Rules counts_;\n")
_change(earley_parser.cc "capture_tracking_ || !rule.capture_name.empty() ||"
        "capture_tracking_ || (!rule.capture_name.empty() && !xgrammar_counts::is_option(rule.capture_name)) ||")
_change(earley_parser.cc "  for (int32_t rule_id : grammar_->allow_empty_rule_ids) {\n"
        "  counts_.read(grammar_);\n  for (int32_t rule_id : grammar_->allow_empty_rule_ids) {\n")
_change(earley_parser.cc "void EarleyParser::Complete(const ParserState& state, bool debug_print, bool marker_present) {\n"
        "void EarleyParser::Complete(const ParserState& state, bool debug_print, bool marker_present) {
  if (!counts_.may_end(state.rule_id, state.repeat_count)) return;\n")
# A state keeps the count of its rule while other rules are read, and a rule of the same group begins with the next one.
_change(earley_parser.cc "    if (edge.IsEpsilon()) {
      Enqueue(ParserState{
          state.rule_id,
          state.sequence_id,
          edge.target,
          state.rule_start_pos,
          state.budget_deadline,
          0,
          0," "    if (edge.IsEpsilon()) {
      Enqueue(ParserState{
          state.rule_id,
          state.sequence_id,
          edge.target,
          state.rule_start_pos,
          state.budget_deadline,
          0,
          state.repeat_count,")
_change(earley_parser.cc "    bool right_recursion_to_root = false;\n    if (debug_print) {\n"
        "    if (!counts_.may_begin(state, ref_rule_id, target, fsm.GetFsm())) continue;
    bool right_recursion_to_root = false;\n    if (debug_print) {\n")
_change(earley_parser.cc "                 target,
                 state.rule_start_pos,
                 state.budget_deadline,
                 0,
                 0," "                 target,
                 state.rule_start_pos,
                 state.budget_deadline,
                 0,
                 state.repeat_count,")
_change(earley_parser.cc "    if (!is_repeat && IsRuleNullable(ref_rule_id)) {
      Enqueue(ParserState{
          state.rule_id,
          state.sequence_id,
          target,
          state.rule_start_pos,
          state.budget_deadline,
          0,
          0," "    if (!is_repeat && IsRuleNullable(ref_rule_id) &&
        counts_.may_end(ref_rule_id, counts_.next(state, ref_rule_id))) {
      Enqueue(ParserState{
          state.rule_id,
          state.sequence_id,
          target,
          state.rule_start_pos,
          state.budget_deadline,
          0,
          state.repeat_count,")
_change(earley_parser.cc "        right_recursion_to_root ? ParserState::kNoPrevInputPos
                                : int32_t(rule_id_to_completable_states_.size() - 1),
        DeadlineForRule(ref_rule_id, state.budget_deadline),
        0,
        0," "        right_recursion_to_root ? ParserState::kNoPrevInputPos
                                : int32_t(rule_id_to_completable_states_.size() - 1),
        DeadlineForRule(ref_rule_id, state.budget_deadline),
        0,
        counts_.next(state, ref_rule_id),")
_change(earley_parser.cc "      right_recursion_to_root ? ParserState::kNoPrevInputPos
                              : int32_t(rule_id_to_completable_states_.size() - 1),
      DeadlineForRule(ref_rule_id, state.budget_deadline),
      0,
      0," "      right_recursion_to_root ? ParserState::kNoPrevInputPos
                              : int32_t(rule_id_to_completable_states_.size() - 1),
      DeadlineForRule(ref_rule_id, state.budget_deadline),
      0,
      counts_.counts(ref_rule_id) ? xgrammar_counts::kUnknown : 0,")
_change(earley_parser.cc "ch > edge.max) {
      continue;
    }
    auto new_state = state;" "ch > edge.max) {
      continue;
    }
    if (!counts_.may_go(state, edge.target, current_fsm.GetFsm())) continue;
    auto new_state = state;")
_change(earley_parser.cc "    if (!is_repeat && !(target_flags & kFsmStateHasEdges) && (target_flags & kFsmStateEnd) &&\n"
        "    if (!is_repeat && !(target_flags & kFsmStateHasEdges) && (target_flags & kFsmStateEnd) &&
        counts_.ends_with(state, ref_rule_id) &&\n")
# Masks hold for all counts. A token that ends a rule that counts is looked at again with its count.
_change(grammar_compiler.cc ": EarleyParser(grammar, init_state),"
        ": EarleyParser(grammar, xgrammar_counts::for_all_counts(init_state, grammar)),")
_change(grammar_compiler.cc "if (lookahead_completed || !is_exact_lookahead) {"
        "if (lookahead_completed || !is_exact_lookahead || counts_.any()) {")
_change(grammar_compiler.cc "        if (HasEnteredCharBudget()) {\n"
        "        if (HasEnteredCharBudget() || (counts_.counts(init_rule_id_) && scanable_state_history_.Back().size() == 0)) {\n")
# Near a bound, tokens are told apart by the number of their characters.
_change(grammar_matcher.cc "const AdaptiveTokenMask& adaptive_token_mask, int32_t remaining_chars\n  );"
        "const AdaptiveTokenMask& adaptive_token_mask, int32_t remaining_chars, int32_t most_chars = INT_MAX\n  );")
_change(grammar_matcher.cc "const AdaptiveTokenMask& adaptive_token_mask, int32_t remaining_chars\n) {"
        "const AdaptiveTokenMask& adaptive_token_mask, int32_t remaining_chars, int32_t most_chars\n) {")
_change(grammar_matcher.cc "          tokens_to_check.push_back(index);"
        "          if (token_char_counts[index] <= most_chars || vocab[index].second.find('\\\\') != std::string::npos)
            tokens_to_check.push_back(index);  // an escape is one character of several")
_change(grammar_matcher.cc "      byte_rejected_tokens.push_back(index);"
        "      if (has_char_budget_rules_) byte_rejected_tokens.push_back(index);")
_change(grammar_matcher.cc "    if (state.char_budget_deadline >= 0) {
      int32_t remaining_chars" "    if (counts_.counts(state.rule_id) && counts_[state.rule_id].near != INT_MAX) {
      const auto& rule = counts_[state.rule_id];
      const bool begun = state.element_id != grammar_->per_rule_fsms[state.rule_id]->GetFsm().GetStart();
      const int32_t remaining = rule.near - state.repeat_count - begun;
      if (remaining <= tokenizer_info_.ImplPtr()->GetMaxTokenChars()) {
        FillBitmaskForCharBudgetBoundary(
            adaptive_token_mask, std::max(remaining, 0),
            begun || rule.far == INT_MAX ? INT_MAX : rule.far - state.repeat_count
        );
        continue;
      }
    }
    if (state.char_budget_deadline >= 0) {
      int32_t remaining_chars")

set(_changed ${CMAKE_BINARY_DIR}/xgrammar)
foreach(name earley_parser.h earley_parser.cc grammar_builder.cc grammar_compiler.cc grammar_functor.cc grammar_matcher.cc)
  set(text "${_text_${name}}")
  file(CONFIGURE OUTPUT ${_changed}/${name} CONTENT "#include \"xgrammar_stop.h\"\n@text@" @ONLY)
endforeach()
list(TRANSFORM _matching REPLACE "(.+)" "${XGRAMMAR_SOURCE}/cpp/\\1.cc")
list(TRANSFORM _grammars REPLACE "(.+)" "${XGRAMMAR_SOURCE}/cpp/\\1.cc")
list(TRANSFORM _matching REPLACE ".+/(earley_parser|grammar_compiler|grammar_matcher)\\.cc" "${_changed}/\\1.cc")
list(TRANSFORM _grammars REPLACE ".+/(grammar_builder|grammar_functor)\\.cc" "${_changed}/\\1.cc")
list(APPEND _grammars ${CMAKE_SOURCE_DIR}/cmake/xgrammar_absent.cc)
add_library(xgrammar STATIC ${_matching} ${_grammars})
set_source_files_properties(${_matching} PROPERTIES UNITY_GROUP matching)
set_source_files_properties(${_grammars} PROPERTIES UNITY_GROUP grammars)
# Without our warnings and sanitizers.
set_target_properties(xgrammar PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP CXX_STANDARD 17 COMPILE_OPTIONS "-O1;-w;-include;${_changed}/earley_parser.h")
target_include_directories(xgrammar SYSTEM PUBLIC ${XGRAMMAR_SOURCE}/include ${XGRAMMAR_SOURCE}/3rdparty/dlpack/include
                                  ${CMAKE_SOURCE_DIR}/cmake
                           PRIVATE ${XGRAMMAR_SOURCE}/3rdparty/picojson ${XGRAMMAR_SOURCE}/cpp)
target_compile_definitions(xgrammar PRIVATE XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
