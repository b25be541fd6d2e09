// SentencePiece's model files, by hand.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tessera::engine::test {

// The kinds of a piece and of a model, as sentencepiece_model.proto numbers them.
enum PieceKind : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3 };
enum ModelKind : uint8_t { kUnigram = 1, kBpe = 2 };

struct ModelPiece {
  std::string text;
  float score = 0;
  PieceKind kind = kNormal;
};

// Fields of a protocol buffer: number and kind of the value, then the value.
namespace proto {
inline std::string Key(int field, int wire_type) {
  return {static_cast<char>(field << 3 | wire_type)};
}
inline std::string Number(int field, uint8_t value) {
  return Key(field, 0) + static_cast<char>(value);
}
inline std::string Text(int field, const std::string& text) {
  return Key(field, 2) + static_cast<char>(text.size()) + text;
}
inline std::string Float(int field, float value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return Key(field, 5) + bytes;
}
}  // namespace proto

// Text is taken as it is, but for a space before it.
inline std::string SentencePieceModel(ModelKind kind, const std::vector<ModelPiece>& pieces) {
  using namespace proto;
  std::string model;
  for (const ModelPiece& piece : pieces) {
    model += Text(1, Text(1, piece.text) + Float(2, piece.score) + Number(3, piece.kind));
  }
  model += Text(2, Number(3, kind));
  const std::string no_map;
  model += Text(3, Text(1, "identity") + Text(2, no_map) + Number(3, 1) + Number(4, 0));
  return model;
}

// U+2581 stands for a space.
inline const std::string kSpacePiece = "\xE2\x96\x81";
inline const std::vector<ModelPiece> kTinyPieces = {{"<unk>", 0, kUnknown},
                                                    {"<s>", 0, kControl},
                                                    {"</s>", 0, kControl},
                                                    {kSpacePiece, -2},
                                                    {"a", -3},
                                                    {"b", -3},
                                                    {"ab", -4},
                                                    {kSpacePiece + "ab", -5.5},
                                                    {"ba", -1}};

}  // namespace tessera::engine::test
