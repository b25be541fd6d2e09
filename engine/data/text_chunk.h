// Text inputs cut into chunks that are tokenized independently of each other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/mapped_file.h"
#include "engine/data/tokenizer.h"

namespace tessera::engine {

// What one document of an input is.
enum class DocumentUnit : uint8_t { kFile, kLine, kJsonRecord };

struct TextInput {
  std::string path;
  DocumentUnit unit = DocumentUnit::kFile;
  std::string json_key = {};  // of kJsonRecord: the key of the text
};

// A part of an input: whole lines, or for a document that is a file, what lies between two places
// at which the tokenizer lets it be cut.
struct TextChunk {
  int64_t input = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// The tokens of a chunk. Where the last document goes on in the next chunk, its tokens stand after
// those of the documents that end here.
struct TokenizedChunk {
  std::vector<int32_t> tokens;
  std::vector<int64_t> document_lengths;  // of documents that end here; none is 0
  int64_t num_empty_documents = 0;        // left out: they have no text
};

// Cuts a file into chunks of about `chunk_bytes`: at ends of lines where documents are lines, where
// the tokenizer allows it where the document is the file.
std::vector<TextChunk> CutIntoChunks(const MappedFile& file, const TextInput& input,
                                     int64_t input_number, int64_t chunk_bytes,
                                     const Tokenizer& tokenizer);

// Tokenizes a chunk; the end of document, where there is one, closes every document. A line is what
// stands before "\n" or "\r\n"; blank lines of a JSON lines file are no records.
// Throws base::ConfigError naming file and line for a broken record.
TokenizedChunk TokenizeChunk(const MappedFile& file, const TextInput& input, const TextChunk& chunk,
                             TextEncoder& encoder, std::optional<int32_t> end_of_document);

}  // namespace tessera::engine
