// Images in a rendered prompt.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/prompt_piece.h"
#include "engine/engine.h"

namespace anabranch {

// What stands in the prompt where the template wrote that there is an image.
void write_for_images(std::vector<PromptPiece>& pieces, const ImageFormat& format);

// Puts the images' ids in place of the pad tokens, in order. Returns where they begin; nothing if there are
// more pad tokens than images.
std::optional<std::vector<int>> put_images(std::vector<int>& tokens, int pad,
                                           std::span<const RequestImage> images);

}  // namespace anabranch
