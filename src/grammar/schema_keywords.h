// The keywords of JSON schemas: their types, limits and errors.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/automaton.h"

namespace anabranch {

constexpr int64_t kMaxRepeat = 100000, kMaxLeast = 10000;  // of counts, such as maxLength and minLength

enum SchemaType { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject, kTypes };
inline constexpr const char* kTypeNames[] = {"null",   "boolean", "integer", "number",
                                             "string", "array",   "object"};
using TypeSet = std::array<bool, kTypes>;

struct KeywordOf {
  const char* keyword;
  SchemaType type;
};
// The keywords that constrain values of one type.
inline constexpr KeywordOf kKeywords[] = {{"minimum", kNumber},
                                          {"maximum", kNumber},
                                          {"exclusiveMinimum", kNumber},
                                          {"exclusiveMaximum", kNumber},
                                          {"multipleOf", kNumber},
                                          {"minLength", kString},
                                          {"maxLength", kString},
                                          {"pattern", kString},
                                          {"format", kString},
                                          {"items", kArray},
                                          {"prefixItems", kArray},
                                          {"minItems", kArray},
                                          {"maxItems", kArray},
                                          {"uniqueItems", kArray},
                                          {"properties", kObject},
                                          {"required", kObject},
                                          {"additionalProperties", kObject},
                                          {"patternProperties", kObject},
                                          {"propertyNames", kObject},
                                          {"minProperties", kObject},
                                          {"maxProperties", kObject}};

// False for annotations such as "title", and for keywords that only references lead to, such as "$defs".
bool constrains_values(const std::string& keyword);
// What becomes of keywords that a grammar cannot keep.
enum class Keep {
  all,       // they are errors
  possible,  // they are left out, and the rest is kept
};
// Whether the error goes away if the keyword that it names is left out.
bool is_of_keyword(const Error& error);

// Errors: unsupported, if the schema has a keyword that no grammar can enforce.
Result<void> check_keywords(const Json& flat, const std::string& where);
// Whether the schema describes numbers that are not integers: the only use of "not" that is supported.
bool leaves_out_integers(const Json& flat);
// The values of "type". Without it, the types that the other keywords constrain; without those, all types.
Result<TypeSet> types_of(const Json& flat, const std::string& where);
// The value of a keyword that takes a number; nullopt: the schema does not have it.
Result<std::optional<double>> number_keyword(const Json& flat, const char* keyword, const std::string& where);
// The value of a keyword that takes a count. Lower bounds above `most` are not supported.
Result<std::optional<int64_t>> count_keyword(const Json& flat, const char* keyword, const std::string& where,
                                             int64_t most);

// The JSON pointer `where`, extended by a key, and by an index.
std::string step_of(const std::string& where, std::string_view key);
std::string step_of(const std::string& where, const char* key, size_t index);

// The errors about a keyword have its name in Error::field.
Error unsatisfiable(const std::string& where);
Error schema_too_large(const std::string& where);
Error invalid_keyword(const std::string& where, const char* keyword, std::string_view what);
Error unsupported_keyword(const std::string& where, const char* keyword, std::string_view what);
// Two schemas that hold together have the keyword, and no schema says both.
Error unsupported_together(const std::string& where, const std::string& keyword, std::string_view what);
// The error with the keyword and its place.
Error error_at(const Error& error, const char* keyword, const std::string& where);
// Adds the keyword and its place to the message if the automaton could not be made.
Result<Automaton> placed(Result<Automaton> made, const char* keyword, const std::string& where);

}  // namespace anabranch
