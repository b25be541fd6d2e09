#include "engine/data/indexed_dataset_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "cost_model/base/error.h"
#include "engine/data/indexed_dataset_format.h"

namespace tessera::engine {
namespace {

template <typename T>
void PackTokens(std::span<const int32_t> tokens, std::byte* out) {
  constexpr auto kHighest = static_cast<uint32_t>(
      std::min<uint64_t>(std::numeric_limits<T>::max(), std::numeric_limits<int32_t>::max()));
  uint32_t highest = 0;  // a negative id turns into a large number
  for (const int32_t token : tokens) highest = std::max(highest, static_cast<uint32_t>(token));
  TESSERA_CHECK(highest <= kHighest, "token ", static_cast<int32_t>(highest), " does not fit in ",
                sizeof(T), " bytes");
  for (size_t i = 0; i < tokens.size(); ++i) {
    const T token = static_cast<T>(tokens[i]);
    std::memcpy(out + i * sizeof(T), &token, sizeof(T));
  }
}

void PackTokens(TokenType type, std::span<const int32_t> tokens, std::byte* out) {
  switch (type) {
    case TokenType::kUInt8:
      return PackTokens<uint8_t>(tokens, out);
    case TokenType::kInt8:
      return PackTokens<int8_t>(tokens, out);
    case TokenType::kUInt16:
      return PackTokens<uint16_t>(tokens, out);
    case TokenType::kInt16:
      return PackTokens<int16_t>(tokens, out);
    case TokenType::kInt32:
      return PackTokens<int32_t>(tokens, out);
    case TokenType::kUInt32:
      return PackTokens<uint32_t>(tokens, out);
    case TokenType::kInt64:
      return PackTokens<int64_t>(tokens, out);
  }
}

template <typename T>
void WriteNumber(OutputFile& file, T value) {
  file.Write(std::as_bytes(std::span<const T>(&value, 1)));
}

}  // namespace

IndexedDatasetWriter::IndexedDatasetWriter(const std::string& prefix, TokenType type)
    : type_(type), bin_(InExistingFolder(prefix + ".bin")), idx_(prefix + ".idx") {}

void IndexedDatasetWriter::AddTokens(std::span<const int32_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (open_tokens_ > std::numeric_limits<int32_t>::max() - count) {
    throw base::ConfigError(bin_.path(), "", "a document of 2^31 tokens or more",
                            "documents of fewer tokens (split the input)");
  }
  packed_.resize(tokens.size() * static_cast<size_t>(SizeBytes(type_)));
  PackTokens(type_, tokens, packed_.data());
  bin_.Write(packed_);
  open_tokens_ += count;
  num_tokens_ += count;
}

void IndexedDatasetWriter::EndSequence() {
  lengths_.push_back(static_cast<int32_t>(open_tokens_));
  open_tokens_ = 0;
}

void IndexedDatasetWriter::EndDocument() {
  TESSERA_CHECK(open_tokens_ == 0, open_tokens_, " tokens of an open sequence");
  document_indices_.push_back(num_sequences());
}

void IndexedDatasetWriter::WriteIndex() {
  idx_.Write(std::as_bytes(std::span(kIndexMagic)));
  WriteNumber(idx_, kIndexVersion);
  WriteNumber(idx_, IndexCodeOf(type_));
  WriteNumber(idx_, static_cast<uint64_t>(lengths_.size()));
  WriteNumber(idx_, static_cast<uint64_t>(document_indices_.size()));
  idx_.Write(std::as_bytes(std::span(lengths_)));
  int64_t pointer = 0;
  for (const int32_t length : lengths_) {
    WriteNumber(idx_, pointer);
    pointer += length * SizeBytes(type_);
  }
  idx_.Write(std::as_bytes(std::span(document_indices_)));
}

void IndexedDatasetWriter::Finish() {
  TESSERA_CHECK(open_tokens_ == 0 && document_indices_.back() == num_sequences(),
                "a sequence or a document is open");
  WriteIndex();
  bin_.Finish();
  idx_.Finish();
  if (::unlink(idx_.path().c_str()) != 0 && errno != ENOENT) {
    throw base::SystemError(base::Concat("unlink of ", idx_.path(), ": ", std::strerror(errno)));
  }
  bin_.Publish();
  idx_.Publish();
  SyncFolderOf(idx_.path());
}

}  // namespace tessera::engine
