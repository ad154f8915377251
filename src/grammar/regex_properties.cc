#include "grammar/regex_properties.h"

#include <algorithm>
#include <array>

namespace anabranch {
namespace {

struct Property {
  std::array<std::string_view, 3> names;
  CharSet set;
};

// The letters of the most common scripts, in two cases where they have them.
const CharSet& letters(bool upper, bool lower) {
  static const CharSet large{{'A', 'Z'},     {0xC0, 0xD6},   {0xD8, 0xDE},
                             {0x391, 0x3A1}, {0x3A3, 0x3A9}, {0x410, 0x42F}};
  static const CharSet small{{'a', 'z'}, {0xDF, 0xF6}, {0xF8, 0xFF}, {0x3B1, 0x3C9}, {0x430, 0x44F}};
  static const CharSet all = [] {
    CharSet out{{0x100, 0x17F},   {0x5D0, 0x5EA},   {0x621, 0x63A},   {0x641, 0x64A},
                {0x3041, 0x3096}, {0x30A1, 0x30FA}, {0x4E00, 0x9FA5}, {0xAC00, 0xD7A3}};
    out.add(large), out.add(small);
    return out;
  }();
  return upper && lower ? all : upper ? large : small;
}

const std::array<Property, 12>& properties() {
  static const CharSet pictures{{0x2600, 0x2604},   {0x2705, 0x2705},   {0x2764, 0x2764},
                                {0x1F400, 0x1F43E}, {0x1F600, 0x1F64F}, {0x1F680, 0x1F6C5}};
  static const std::array<Property, 12> all = {{
      {{"L", "Letter", "Alphabetic"}, letters(true, true)},
      {{"Lu", "Uppercase_Letter", "Uppercase"}, letters(true, false)},
      {{"Ll", "Lowercase_Letter", "Lowercase"}, letters(false, true)},
      {{"M", "Mark"}, {{0x300, 0x36F}}},
      {{"N", "Number"}, {{'0', '9'}}},
      {{"Nd", "Decimal_Number"}, {{'0', '9'}}},
      {{"P", "Punctuation"},
       {{'!', '#'},
        {'%', '*'},
        {',', '/'},
        {':', ';'},
        {'?', '@'},
        {'[', ']'},
        {'_', '_'},
        {'{', '{'},
        {'}', '}'}}},
      {{"S", "Symbol"}, {{'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'}, {'`', '`'}, {'|', '|'}, {'~', '~'}}},
      {{"Z", "Zs", "Separator"}, {{' ', ' '}, {0xA0, 0xA0}}},
      {{"Extended_Pictographic", "ExtPict"}, pictures},
      {{"Emoji_Presentation", "EPres"}, {{0x2705, 0x2705}, {0x1F400, 0x1F43E}, {0x1F600, 0x1F64F}}},
      {{"Emoji_Component", "EComp"},
       {{'#', '#'},
        {'*', '*'},
        {'0', '9'},
        {0x200D, 0x200D},
        {0x20E3, 0x20E3},
        {0xFE0F, 0xFE0F},
        {0x1F1E6, 0x1F1FF},
        {0x1F3FB, 0x1F3FF}}},
  }};
  return all;
}

}  // namespace

CharSet characters_with(std::string_view property) {
  for (const Property& known : properties())
    if (std::find(known.names.begin(), known.names.end(), property) != known.names.end()) return known.set;
  return {};
}

}  // namespace anabranch
