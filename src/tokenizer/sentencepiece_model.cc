#include "tokenizer/sentencepiece_model.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

constexpr size_t kMaxCharsmap = 64u << 20;

Error damaged(std::string_view where) {
  return make_error(ErrorKind::invalid, "not a SentencePiece model, or a damaged one: {}", where);
}

// One field of a protocol buffer's message.
struct Field {
  uint64_t number = 0;
  uint64_t value = 0;      // wire types 0, 1 and 5
  std::string_view bytes;  // wire type 2
  int wire = 0;
};

// Reads a message field by field.
class Message {
 public:
  explicit Message(std::string_view bytes) : rest_(bytes) {}
  bool done() const { return rest_.empty(); }

  Result<Field> next() {
    TRY(const uint64_t tag, varint());
    Field field{tag >> 3, 0, {}, static_cast<int>(tag & 7)};
    if (field.number == 0) return damaged("a field without a number");
    if (field.wire == 0) {
      TRY(field.value, varint());
    } else if (field.wire == 1) {
      TRY(field.value, fixed(8));
    } else if (field.wire == 5) {
      TRY(field.value, fixed(4));
    } else if (field.wire == 2) {
      TRY(const uint64_t size, varint());
      if (size > rest_.size()) return damaged("a field is longer than the file");
      field.bytes = rest_.substr(0, size);
      rest_.remove_prefix(size);
    } else {
      return damaged("an unknown kind of field");
    }
    return field;
  }

 private:
  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return damaged("a number without an end");
  }
  Result<uint64_t> fixed(size_t size) {
    if (rest_.size() < size) return damaged("a field is longer than the file");
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
    rest_.remove_prefix(size);
    return value;
  }
  std::string_view rest_;
};

// Calls read(field) for every field of a message.
template <class Read>
Result<void> for_each_field(std::string_view bytes, const Read& read) {
  for (Message message(bytes); !message.done();) {
    TRY(const Field field, message.next());
    TRY_VOID(read(field));
  }
  return {};
}

Result<SentencePieceModel::Piece> read_piece(std::string_view bytes, size_t id) {
  SentencePieceModel::Piece piece;
  uint64_t type = SentencePieceModel::kNormal;
  TRY_VOID(for_each_field(bytes, [&](const Field& field) -> Result<void> {
    if (field.number == 1 && field.wire == 2) piece.text = field.bytes;
    if (field.number == 2 && field.wire == 5) {
      const auto bits = static_cast<uint32_t>(field.value);
      std::memcpy(&piece.score, &bits, sizeof(bits));
    }
    if (field.number == 3 && field.wire == 0) type = field.value;
    return {};
  }));
  if (piece.text.empty() || piece.text.size() > kMaxTokenBytes || !is_valid_utf8(piece.text))
    return damaged(fmt::format("piece {} is not UTF-8 of 1 to {} bytes", id, kMaxTokenBytes));
  if (!std::isfinite(piece.score)) return damaged(fmt::format("the score of piece {} is not a number", id));
  if (type < SentencePieceModel::kNormal || type > SentencePieceModel::kByte)
    return damaged(fmt::format("piece {} is of an unknown type {}", id, type));
  piece.type = static_cast<SentencePieceModel::PieceType>(type);
  return piece;
}

Result<void> read_trainer(std::string_view bytes, SentencePieceModel& model) {
  enum { kModelType = 3, kSuffix = 24, kByteFallback = 35, kUnkId = 40, kBosId = 41, kEosId = 42 };
  enum { kUnigramType = 1, kBpeType = 2 };
  uint64_t type = kUnigramType;
  bool suffix = false;
  // Negative numbers are written as 64 bits.
  const auto id = [](uint64_t value) {
    const auto n = static_cast<int64_t>(value);
    return n < 0 || n > INT32_MAX ? -1 : static_cast<int>(n);
  };
  TRY_VOID(for_each_field(bytes, [&](const Field& field) -> Result<void> {
    if (field.wire != 0) return {};
    if (field.number == kModelType) type = field.value;
    if (field.number == kSuffix) suffix = field.value != 0;
    if (field.number == kByteFallback) model.byte_fallback = field.value != 0;
    if (field.number == kUnkId) model.unk = id(field.value);
    if (field.number == kBosId) model.bos = id(field.value);
    if (field.number == kEosId) model.eos = id(field.value);
    return {};
  }));
  if (type != kUnigramType && type != kBpeType)
    return make_error(ErrorKind::unsupported,
                      "a SentencePiece model of words or characters is not supported (BPE and Unigram are)");
  if (suffix)
    return make_error(ErrorKind::unsupported,
                      "a SentencePiece model with treat_whitespace_as_suffix is not supported");
  model.unigram = type == kUnigramType;
  return {};
}

Result<void> read_normalizer(std::string_view bytes, SentencePieceModel& model) {
  return for_each_field(bytes, [&](const Field& field) -> Result<void> {
    if (field.number == 2 && field.wire == 2) {
      if (field.bytes.size() > kMaxCharsmap)
        return make_error(ErrorKind::exhausted, "a normalizer of {} bytes; the limit is {}",
                          field.bytes.size(), kMaxCharsmap);
      model.charsmap = field.bytes;
    }
    if (field.wire != 0) return {};
    if (field.number == 3) model.add_dummy_prefix = field.value != 0;
    if (field.number == 4) model.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) model.escape_whitespaces = field.value != 0;
    return {};
  });
}

}  // namespace

Result<SentencePieceModel> parse_sentencepiece(std::string_view bytes) {
  enum { kPieces = 1, kTrainer = 2, kNormalizer = 3 };
  SentencePieceModel model;
  TRY_VOID(for_each_field(bytes, [&](const Field& field) -> Result<void> {
    if (field.wire != 2) return {};
    if (field.number == kPieces) {
      if (model.pieces.size() > static_cast<size_t>(Vocab::kMaxId))
        return make_error(ErrorKind::exhausted, "more than {} pieces", Vocab::kMaxId);
      TRY(auto piece, read_piece(field.bytes, model.pieces.size()));
      model.pieces.push_back(std::move(piece));
    }
    if (field.number == kTrainer) return read_trainer(field.bytes, model);
    if (field.number == kNormalizer) return read_normalizer(field.bytes, model);
    return {};
  }));
  if (model.pieces.empty()) return damaged("it has no pieces");
  for (int* id : {&model.unk, &model.bos, &model.eos})
    if (*id >= static_cast<int>(model.pieces.size())) *id = -1;
  return model;
}

}  // namespace anabranch
