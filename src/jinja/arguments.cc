#include <algorithm>

#include "jinja/run.h"

namespace anabranch::jinja {

Parameters::Parameters(std::string_view function, const Arguments& arguments,
                       std::initializer_list<std::string_view> names, size_t required)
    : function_(function), values_(names.size()) {
  if (arguments.positional.size() > names.size())
    fail("{} takes at most {} argument(s), {} given", function, names.size(), arguments.positional.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    auto it = std::find(names.begin(), names.end(), name);
    if (it == names.end()) fail("{} takes no argument named '{}'", function, name);
    const Value*& slot = values_[static_cast<size_t>(it - names.begin())];
    if (slot != nullptr) fail("{} got the argument '{}' twice", function, name);
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i)
    if (values_[i] == nullptr) fail("{} needs the argument '{}'", function, *(names.begin() + i));
}

Int Parameters::integer(size_t i, Int otherwise) const {
  if (values_[i] == nullptr || values_[i]->is(Kind::none)) return otherwise;
  if (values_[i]->is(Kind::undefined)) fail("{}", values_[i]->why());
  if (!values_[i]->integral()) fail("{} needs an integer, not a {}", function_, type_name(*values_[i]));
  constexpr Int kFar = Int{1} << 62;  // above every width and count that the limits allow
  return std::clamp(values_[i]->integer(), -kFar, kFar);
}

bool Parameters::flag(size_t i, bool otherwise) const {
  return values_[i] == nullptr ? otherwise : truthy(*values_[i]);
}

Text Parameters::text(size_t i, std::string_view otherwise, Budget& budget) const {
  if (values_[i] == nullptr) return Text(std::string(otherwise), true);
  return to_text(*values_[i], budget);
}

}  // namespace anabranch::jinja
