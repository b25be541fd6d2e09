#include "engine/data/indexed_dataset.h"

#include <string_view>

#include "cost_model/base/error.h"
#include "engine/data/indexed_dataset_format.h"

namespace tessera::engine {
namespace {

constexpr int64_t kSequenceLengthBytes = 4;
constexpr int64_t kPointerBytes = 8;
constexpr int64_t kDocumentBytes = 8;

}  // namespace

IndexedDataset::IndexedDataset(const std::string& path)
    : idx_(IndexedPathsOf(path).idx), bin_(IndexedPathsOf(path).bin) {
  ReadHeader();
  CheckSequences();
  CheckDocuments();
}

void IndexedDataset::Fail(int64_t byte, const std::string& found,
                          const std::string& expected) const {
  throw base::ConfigError(idx_.path(), base::Concat("byte ", byte), found, expected);
}

void IndexedDataset::ReadHeader() {
  const int64_t size = idx_.size_bytes();
  if (size < kIndexHeaderBytes) {
    Fail(size, "the end of the file", base::Concat("a header of ", kIndexHeaderBytes, " bytes"));
  }
  const std::byte* const data = idx_.data();
  const std::string_view magic(reinterpret_cast<const char*>(data), kIndexMagic.size());
  if (magic != kIndexMagic) Fail(0, "another magic number", "MMIDIDX (an .idx file)");
  const auto version = LoadAt<uint64_t>(data + kIndexVersionOffset);
  if (version != kIndexVersion) {
    Fail(kIndexVersionOffset, base::Concat("version ", version),
         base::Concat("version ", kIndexVersion));
  }
  const auto code = LoadAt<uint8_t>(data + kIndexTypeOffset);
  const auto type = TokenTypeOfIndexCode(code);
  if (!type) {
    Fail(kIndexTypeOffset, base::Concat("token type code ", int{code}),
         "1, 2, 3, 4, 5 or 8 (an integer type)");
  }
  type_ = *type;
  // Compared by division: the counts are any 64-bit numbers in a broken file.
  const auto body = static_cast<uint64_t>(size - kIndexHeaderBytes);
  const auto sequences = LoadAt<uint64_t>(data + kIndexSequencesOffset);
  if (sequences > body / (kSequenceLengthBytes + kPointerBytes)) {
    Fail(kIndexSequencesOffset, base::Concat(sequences, " sequences"),
         base::Concat("no more than fit in a file of ", size, " bytes"));
  }
  const uint64_t after_sequences = body - sequences * (kSequenceLengthBytes + kPointerBytes);
  const auto documents = LoadAt<uint64_t>(data + kIndexDocumentsOffset);
  if (documents < 1 || documents > after_sequences / kDocumentBytes) {
    Fail(kIndexDocumentsOffset, base::Concat(documents, " document indices"),
         base::Concat("at least 1 and no more than fit in a file of ", size, " bytes"));
  }
  const uint64_t rest = after_sequences - documents * kDocumentBytes;
  if (rest != 0 && rest != sequences) {
    Fail(kIndexSequencesOffset,
         base::Concat(sequences, " sequences and ", documents, " document indices in ", size,
                      " bytes"),
         base::Concat("a file of ", static_cast<uint64_t>(size) - rest, " bytes"));
  }
  has_modes_ = rest != 0;
  num_sequences_ = static_cast<int64_t>(sequences);
  num_document_indices_ = static_cast<int64_t>(documents);
}

void IndexedDataset::CheckSequences() const {
  const int64_t token_size = SizeBytes(type_);
  int64_t end = 0;
  for (int64_t i = 0; i < num_sequences_; ++i) {
    const int64_t length = Length(i);
    if (length < 0) {
      Fail(LengthsOffset() + i * kSequenceLengthBytes,
           base::Concat("a sequence of ", length, " tokens"), "0 or more");
    }
    const int64_t pointer = Pointer(i);
    if (pointer < end) {
      Fail(PointersOffset() + i * kPointerBytes, base::Concat("sequence ", i, " at byte ", pointer),
           base::Concat("byte ", end, " or later, where the one before ends"));
    }
    // A length is below 2^31, so its bytes don't overflow; the pointer is any 63-bit number.
    if (pointer > bin_.size_bytes() || length * token_size > bin_.size_bytes() - pointer) {
      Fail(PointersOffset() + i * kPointerBytes,
           base::Concat("sequence ", i, " at byte ", pointer, " with ", length, " tokens of ",
                        token_size, " bytes"),
           base::Concat("an end within the ", bin_.size_bytes(), " bytes of ", bin_.path()));
    }
    end = pointer + length * token_size;
  }
  if (end != bin_.size_bytes()) {
    throw base::ConfigError(
        bin_.path(), "", base::Concat(bin_.size_bytes(), " bytes"),
        base::Concat(end, " bytes, where the last sequence of ", idx_.path(), " ends"));
  }
}

void IndexedDataset::CheckDocuments() const {
  int64_t previous = 0;
  for (int64_t i = 0; i < num_document_indices_; ++i) {
    const int64_t first = DocumentIndex(i);
    if (first < previous || first > (i == 0 ? 0 : num_sequences_)) {
      Fail(DocumentsOffset() + i * kDocumentBytes, base::Concat("document index ", first),
           i == 0 ? "0" : base::Concat(previous, " to ", num_sequences_));
    }
    previous = first;
  }
  if (previous != num_sequences_) {
    Fail(DocumentsOffset() + (num_document_indices_ - 1) * kDocumentBytes,
         base::Concat("last document index ", previous),
         base::Concat(num_sequences_, ", the number of sequences"));
  }
}

TokenView IndexedDataset::Sequence(int64_t sequence) const {
  TESSERA_CHECK(sequence >= 0 && sequence < num_sequences_, "sequence ", sequence, " of ",
                num_sequences_);
  return {.data = bin_.data() + Pointer(sequence), .num_tokens = Length(sequence), .type = type_};
}

std::vector<std::pair<std::string, int64_t>> IndexedDataset::Header() const {
  return {{"version", static_cast<int64_t>(kIndexVersion)},
          {"token_type_code", int64_t{IndexCodeOf(type_)}},
          {"sequence_count", num_sequences_},
          {"document_index_count", num_document_indices_},
          {"has_modes", has_modes_ ? 1 : 0}};
}

int64_t IndexedDataset::DocumentIndex(int64_t document) const {
  TESSERA_CHECK(document >= 0 && document < num_document_indices_, "document ", document, " of ",
                num_document_indices_ - 1);
  return LoadAt<int64_t>(idx_.data() + DocumentsOffset() + document * kDocumentBytes);
}

int64_t IndexedDataset::LengthsOffset() const { return kIndexHeaderBytes; }

int64_t IndexedDataset::PointersOffset() const {
  return LengthsOffset() + num_sequences_ * kSequenceLengthBytes;
}

int64_t IndexedDataset::DocumentsOffset() const {
  return PointersOffset() + num_sequences_ * kPointerBytes;
}

int64_t IndexedDataset::Length(int64_t sequence) const {
  return LoadAt<int32_t>(idx_.data() + LengthsOffset() + sequence * kSequenceLengthBytes);
}

int64_t IndexedDataset::Pointer(int64_t sequence) const {
  return LoadAt<int64_t>(idx_.data() + PointersOffset() + sequence * kPointerBytes);
}

}  // namespace tessera::engine
