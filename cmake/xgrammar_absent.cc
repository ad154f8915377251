// Stands for the parts of xgrammar that cmake/FindXgrammar.cmake leaves out: converters of other notations,
// and a description of tokens for debugging. Nothing of ours calls them; xgrammar names them in functions
// that we do not use.
#include <stdexcept>

#include "json_schema_converter.h"
#include "lark_converter.h"
#include "regex_converter.h"
#include "structural_tag.h"
#include "testing.h"

namespace xgrammar {
namespace {

[[noreturn]] void absent() {
  throw std::logic_error("this part of xgrammar is not compiled");
}

}  // namespace

Grammar JSONSchemaToGrammar(const std::string&, bool, std::optional<int>,
                            std::optional<std::pair<std::string, std::string>>, bool, std::optional<int>,
                            bool, JSONFormat, std::vector<std::string>) {
  absent();
}
Grammar LarkToGrammar(const std::string&, const std::optional<TokenizerInfo>&,
                      const std::vector<NamedGrammar>&) {
  absent();
}
std::string RegexToEBNF(const std::string&, bool) {
  absent();
}
Result<Grammar, StructuralTagError> StructuralTagToGrammar(const std::string&,
                                                           const std::optional<TokenizerInfo>&) {
  absent();
}
std::string PrintTokenByIds(const std::vector<int32_t>&, const TokenizerInfo&, int) {
  absent();
}

}  // namespace xgrammar
