// Writes one JSON schema as rules of a grammar: schema_writer.cc has references and alternatives,
// schema_arrays.cc, schema_objects.cc and schema_parameters.cc (parameters of calls) the rest. Each method
// returns the element that stands for a schema's values in other rules; it is "" if no value satisfies the
// schema.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/grammar_rules.h"
#include "grammar/schema_document.h"
#include "grammar/schema_finite.h"
#include "grammar/schema_grammar.h"
#include "grammar/schema_keywords.h"
#include "grammar/schema_members.h"

namespace anabranch {

class SchemaWriter {
 public:
  // `root` and `rules` must outlive this; `where` is the place of the root in error messages.
  SchemaWriter(const Json& root, GrammarRules& rules, const std::string& where, Keep keep = Keep::all)
      : rules_(rules), where_(where), keep_(keep), document_(root, rules.work(), keep), finite_(document_) {}

  // Values of the whole schema. An error if there are none.
  Result<std::string> whole();
  // The whole schema as the parameters of a call (add_parameters). An error if no call satisfies it.
  Result<std::string> parameters(const ParameterTags& tags);
  // The same for add_keyword_arguments.
  Result<std::string> keyword_arguments();

 private:
  using Element = Result<std::string>;

  Element value(const Json& schema, const std::string& where);
  Element flat_value(const Json& flat, const std::string& where);
  Element reference(const Json& ref, const std::string& where);
  // The rule that is known by `key`, or the one that `write` adds.
  Element shared(const std::string& key, std::string_view hint, const std::string& where,
                 const std::function<Element()>& write);
  // Writes the schema. If keywords may be left out, those that `write` cannot keep are.
  Element kept(Json flat, const std::function<Element(const Json&)>& write) const;
  bool may_leave_out(const Error& error) const { return keep_ == Keep::possible && is_of_keyword(error); }
  // `made`, or if it failed, an error after which every rule that others refer to is defined.
  Element concluded(Element made);
  // anyOf or oneOf, together with the keywords beside it. named: see bare_flat.
  Element options(Json flat, const char* keyword, const std::string& where, bool is_bare,
                  const TypeSet& named);
  Element option(const Json& schema, const std::string& where, bool is_bare, const TypeSet& named);
  Element of_type(SchemaType type, const Json& flat, const std::string& where);
  Element array(const Json& flat, const std::string& where);
  Result<std::vector<std::string>> listed_values(const Json& items, const std::string& where);
  Element set(const Json& flat, const std::string& where, int64_t least, std::optional<int64_t> most);

  Element object(const Json& given, const std::string& where);
  Result<Json> with_listed_names(const Json& flat, const std::string& where);
  Result<std::vector<std::pair<Automaton, const Json*>>> patterns_of(const Json& flat,
                                                                     const std::string& where);
  // Adds the members of `properties` and `required`. `write` returns the text of one: calls write members in
  // another way than JSON. False: a required member has no value, and so the object has none.
  using WriteMember =
      std::function<Element(const std::string& name, const Json& schema, const std::string& place)>;
  Result<bool> named_members(const Json& flat, const std::string& where, const WriteMember& write,
                             std::vector<Member>& out, std::vector<std::string>& names);
  // A member with a name that is none of `names`.
  Element other_member(const Json& flat, const std::vector<std::string>& names, const std::string& where);

  Element written_parameters(const std::function<Element(const Json&)>& write);
  Element flat_parameters(const Json& flat);
  bool is_text(const Json& schema, const std::string& where);
  Element flat_keywords(const Json& flat);
  // `write` is given only names for which `may_name` holds.
  Result<std::vector<Member>> parameter_members(const Json& flat, bool (*may_name)(std::string_view),
                                                const WriteMember& write);
  // A value between tags: strings are written without quotes.
  Element bare(const Json& schema, const std::string& where);
  // The same for a flat schema. named: the types that the whole schema of the value names.
  Element bare_flat(const Json& flat, const std::string& where, const TypeSet& named);

  // The rule that a reference stands for.
  struct Rule {
    std::string name;
    int level = 0;      // the level_ at which it was begun
    bool done = false;  // false while it is written
    bool empty = false;
  };
  GrammarRules& rules_;
  const std::string where_;
  const Keep keep_;
  const SchemaDocument document_;
  FiniteSchemas finite_;
  const ParameterTags* tags_ = nullptr;  // of parameters()
  std::map<std::string, Rule> refs_;     // by pointer, or another key (shared())
  int nodes_ = 0, depth_ = 0;
  // How many objects and arrays enclose the current schema. A schema may refer to itself only at a deeper
  // level: there the opening bracket is already written.
  int level_ = 0;
};

// Adds one to a count while it lives.
struct Deeper {
  explicit Deeper(int& n) : n(n) { ++n; }
  ~Deeper() { --n; }
  int& n;
};

}  // namespace anabranch
