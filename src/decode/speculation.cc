#include "decode/speculation.h"

namespace anabranch {

Result<SpecMode> parse_spec_mode(std::string_view name, int depth) {
  if (name == "auto") return SpecMode{true, DraftSource::none, depth};
  const auto source = name == "off" ? DraftSource::none : source_named(name);
  if (!source || name == name_of(DraftSource::none))
    return make_error(ErrorKind::invalid,
                      "\"{}\" is no kind of speculation; auto, off, ngram, mtp, draft, exit and skip are",
                      name);
  if (source == DraftSource::none && depth != 0)
    return make_error(ErrorKind::invalid,
                      "speculation is off, but a depth of {} was given: leave the depth out", depth);
  return SpecMode{false, *source, depth};
}

}  // namespace anabranch
