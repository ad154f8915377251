// Images in a rendered prompt.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/prompt_piece.h"
#include "engine/engine.h"

namespace anabranch {

// Replaces the template's text for each image (format.written) with the text that the prompt needs
// (format.in_prompt).
void write_for_images(std::vector<PromptPiece>& pieces, const ImageFormat& format);

// Replaces the pad tokens with the images' ids, in order. Returns where the images begin; nothing if there
// are more pad tokens than images.
std::optional<std::vector<int>> put_images(std::vector<int>& tokens, int pad,
                                           std::span<const RequestImage> images);

}  // namespace anabranch
