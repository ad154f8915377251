#include "chat/prompt_pictures.h"

namespace anabranch {
void write_for_images(std::vector<PromptPiece>& pieces, const ImageFormat& format) {
  if (format.written == format.in_prompt) return;
  for (PromptPiece& piece : pieces) {
    if (!piece.trusted) continue;
    for (size_t at = 0; (at = piece.text.find(format.written, at)) != std::string::npos;
         at += format.in_prompt.size())
      piece.text.replace(at, format.written.size(), format.in_prompt);
  }
}

std::optional<std::vector<int>> put_images(std::vector<int>& tokens, int pad,
                                           std::span<const RequestImage> images) {
  std::vector<int> out, begins;
  for (const int token : tokens) {
    if (token != pad) {
      out.push_back(token);
      continue;
    }
    if (begins.size() == images.size()) return std::nullopt;
    const RequestImage& image = images[begins.size()];
    begins.push_back(static_cast<int>(out.size()));
    for (int i = 0; i < image.image->tokens; i++) out.push_back(image_id(image.key, i));
  }
  tokens = std::move(out);
  return begins;
}

}  // namespace anabranch
