#include "engine/data/token_file.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

constexpr int64_t kLlmCHeaderBytes = 256 * 4;
constexpr int64_t kLlmCVersionOffset = 4;
constexpr int64_t kLlmCTokensOffset = 8;

struct LlmCKind {
  int32_t magic;
  int32_t version;
  TokenType type;
};

constexpr std::array<LlmCKind, 2> kLlmCKinds = {
    {{20240520, 1, TokenType::kUInt16}, {20240801, 7, TokenType::kUInt32}}};

using HeaderFields = std::vector<std::pair<std::string, int64_t>>;

class TokenFile final : public TokenStore {
 public:
  TokenFile(MappedFile file, TokenType type, int64_t header_bytes, HeaderFields header)
      : file_(std::move(file)),
        type_(type),
        header_bytes_(header_bytes),
        header_(std::move(header)) {}

  int64_t num_sequences() const override { return 1; }
  int64_t num_documents() const override { return 1; }
  TokenType token_type() const override { return type_; }
  TokenView Sequence(int64_t sequence) const override {
    TESSERA_CHECK(sequence == 0, "sequence ", sequence, " of 1");
    return {.data = file_.data() + header_bytes_,
            .num_tokens = (file_.size_bytes() - header_bytes_) / SizeBytes(type_),
            .type = type_};
  }
  int64_t DocumentIndex(int64_t document) const override {
    TESSERA_CHECK(document == 0 || document == 1, "document ", document, " of 1");
    return document;
  }
  const MappedFile& token_bytes() const override { return file_; }
  HeaderFields Header() const override { return header_; }

 private:
  MappedFile file_;
  TokenType type_;
  int64_t header_bytes_;
  HeaderFields header_;
};

std::optional<LlmCKind> LlmCKindOf(const MappedFile& file) {
  if (file.size_bytes() < static_cast<int64_t>(sizeof(int32_t))) return std::nullopt;
  const auto magic = LoadAt<int32_t>(file.data());
  for (const LlmCKind& kind : kLlmCKinds) {
    if (kind.magic == magic) return kind;
  }
  return std::nullopt;
}

}  // namespace

bool HasLlmCMagic(const MappedFile& file) { return LlmCKindOf(file).has_value(); }

std::unique_ptr<TokenStore> OpenRawTokenFile(const std::string& path, TokenType type) {
  MappedFile file(path);
  const int64_t token_size = SizeBytes(type);
  if (file.size_bytes() == 0) {
    throw base::ConfigError(path, "", "an empty file", base::Concat(ToString(type), " tokens"));
  }
  if (file.size_bytes() % token_size != 0) {
    throw base::ConfigError(
        path, "", base::Concat(file.size_bytes(), " bytes"),
        base::Concat("a multiple of ", token_size, " (", ToString(type), " tokens)"));
  }
  return std::make_unique<TokenFile>(std::move(file), type, 0, HeaderFields{});
}

std::unique_ptr<TokenStore> OpenLlmCTokenFile(const std::string& path) {
  MappedFile file(path);
  if (file.size_bytes() < kLlmCHeaderBytes) {
    throw base::ConfigError(path, base::Concat("byte ", file.size_bytes()), "the end of the file",
                            base::Concat("a header of ", kLlmCHeaderBytes, " bytes"));
  }
  const auto kind = LlmCKindOf(file);
  if (!kind) {
    throw base::ConfigError(path, "byte 0",
                            base::Concat("magic number ", LoadAt<int32_t>(file.data())),
                            "20240520 or 20240801 (a token file of llm.c)");
  }
  const auto version = LoadAt<int32_t>(file.data() + kLlmCVersionOffset);
  if (version != kind->version) {
    throw base::ConfigError(
        path, base::Concat("byte ", kLlmCVersionOffset), base::Concat("version ", version),
        base::Concat("version ", kind->version, " for magic number ", kind->magic));
  }
  const int64_t num_tokens = LoadAt<int32_t>(file.data() + kLlmCTokensOffset);
  const int64_t size_bytes = kLlmCHeaderBytes + num_tokens * SizeBytes(kind->type);
  if (num_tokens < 0 || file.size_bytes() != size_bytes) {
    throw base::ConfigError(
        path, base::Concat("byte ", kLlmCTokensOffset),
        base::Concat(num_tokens, " tokens in a file of ", file.size_bytes(), " bytes"),
        base::Concat("one of ", kLlmCHeaderBytes, " + ", SizeBytes(kind->type), " * tokens bytes"));
  }
  return std::make_unique<TokenFile>(
      std::move(file), kind->type, kLlmCHeaderBytes,
      HeaderFields{{"magic", kind->magic}, {"version", version}, {"token_count", num_tokens}});
}

}  // namespace tessera::engine
