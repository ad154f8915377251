// Tokenizers from SentencePiece's tokenizer.model (Llama 2, Mistral, Gemma).
#include <algorithm>
#include <climits>
#include <utility>

#include "base/outside_text.h"
#include "tokenizer/gguf_vocab.h"
#include "tokenizer/sentencepiece_normalizer.h"
#include "tokenizer/vocab_files.h"

namespace anabranch {
namespace {

using Piece = SentencePieceModel::Piece;

// Gives pieces the texts of the settings, because fine-tuned models rename reserved pieces. User-defined
// pieces are found as SentencePiece finds them, whatever the settings say, so they are removed from the
// settings. The others are searched in the text before normalisation, because normalised text has a dummy
// prefix.
void rename_pieces(SentencePieceModel& model, TokenizerSettings& settings) {
  for (AddedToken& token : settings.added) {
    token.normalized = false;
    if (static_cast<size_t>(token.id) >= model.pieces.size()) continue;
    Piece& piece = model.pieces[static_cast<size_t>(token.id)];
    if (piece.text == token.content) continue;
    piece.text = token.content;
    piece.type = SentencePieceModel::kControl;
  }
  std::erase_if(settings.added, [&](const AddedToken& token) {
    return !token.special && static_cast<size_t>(token.id) < model.pieces.size() &&
           model.pieces[static_cast<size_t>(token.id)].type == SentencePieceModel::kUserDefined;
  });
}

Result<void> fill_vocab(const SentencePieceModel& model, TokenizerParts& parts) {
  parts.vocab->reserve(model.pieces.size());
  for (size_t i = 0; i < model.pieces.size(); ++i) {
    const Piece& piece = model.pieces[i];
    const int id = static_cast<int>(i);
    if (parts.vocab->lookup(piece.text) >= 0)
      return make_error(ErrorKind::invalid, "pieces {} and {} are both '{}'", parts.vocab->lookup(piece.text),
                        id, shown(piece.text));
    parts.vocab->add(piece.text, id);
    const bool user_defined = piece.type == SentencePieceModel::kUserDefined;
    if (!user_defined && piece.type != SentencePieceModel::kControl &&
        piece.type != SentencePieceModel::kUnknown)
      continue;
    AddedToken token;
    token.id = id;
    token.content = piece.text;
    token.special = !user_defined;
    token.normalized = token.as_is = user_defined;
    parts.added.push_back(std::move(token));
  }
  const auto control = [&](int id) {
    return id >= 0 && model.pieces[static_cast<size_t>(id)].type == SentencePieceModel::kControl
               ? model.pieces[static_cast<size_t>(id)].text
               : "";
  };
  parts.bos = control(model.bos);
  parts.eos = control(model.eos);
  return {};
}

// By id: tokens that ordinary text never becomes by merging.
std::vector<bool> blocked_ids(const SentencePieceModel& model, const TokenizerParts& parts) {
  std::vector<bool> blocked = control_ids(parts.added);
  blocked.resize(std::max(blocked.size(), model.pieces.size()));
  for (size_t id = 0; id < model.pieces.size(); ++id)
    if (model.pieces[id].type != SentencePieceModel::kNormal) blocked[id] = true;
  return blocked;
}

void set_model(const SentencePieceModel& model, TokenizerParts& parts) {
  if (model.unigram) {
    std::vector<double> scores;
    for (const Piece& piece : model.pieces) scores.push_back(piece.score);
    parts.model = Unigram(parts.vocab.get(), std::move(scores), model.unk, model.byte_fallback,
                          blocked_ids(model, parts), Unigram::Sums::single_precision);
    return;
  }
  Bpe::Options options;
  options.unk = model.unk;
  options.fuse_unk = true;
  options.byte_fallback = model.byte_fallback;
  Bpe bpe(parts.vocab.get(), options);
  bpe.set_blocked(blocked_ids(model, parts));
  std::vector<float> scores;
  for (const Piece& piece : model.pieces) scores.push_back(piece.score);
  bpe.merge_by_score(scores, Bpe::Ties::leftmost);
  parts.model = std::move(bpe);
}

Result<Decoder> make_decoder(const SentencePieceModel& model) {
  using Kind = DecoderStep::Kind;
  std::vector<DecoderStep> steps(3);
  steps[0].kind = Kind::replace;
  TRY(Regex metaspace, Regex::literal(kMetaspace));
  steps[0].pattern.push_back(std::move(metaspace));
  steps[0].content = " ";
  steps[1].kind = Kind::byte_fallback;
  steps[2].kind = Kind::fuse;
  if (model.add_dummy_prefix) {
    DecoderStep strip;
    strip.kind = Kind::strip;
    strip.content = " ";
    strip.start = model.remove_extra_whitespaces ? INT_MAX : 1;
    steps.push_back(std::move(strip));
  }
  return Decoder(std::move(steps));
}

}  // namespace

Result<TokenizerParts> read_sentencepiece_tokenizer(std::string_view bytes, TokenizerSettings settings) {
  TRY(SentencePieceModel model, parse_sentencepiece(bytes));
  rename_pieces(model, settings);
  TokenizerParts parts;
  TRY_VOID(fill_vocab(model, parts));
  TRY_VOID(apply_tokenizer_settings(settings, parts));
  set_model(model, parts);
  // Mistral's own code gives each stretch of text its dummy prefix.
  const bool mistral = settings.model_type.starts_with("mistral") ||
                       settings.model_type.starts_with("ministral") ||
                       settings.model_type.starts_with("mixtral");
  const bool everywhere = settings.legacy.value_or(mistral);
  TRY(auto rules, SentencePieceNormalizer::make(model, everywhere));
  NormalizerStep step;
  step.kind = NormalizerStep::Kind::sentencepiece;
  step.rules = std::make_shared<const SentencePieceNormalizer>(std::move(rules));
  parts.normalizer = Normalizer({std::move(step)});
  TRY(parts.decoder, make_decoder(model));
  parts.add_bos = settings.add_bos.value_or(true);
  return parts;
}

}  // namespace anabranch
