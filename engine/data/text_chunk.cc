#include "engine/data/text_chunk.h"

#include <algorithm>
#include <string_view>

#include "cost_model/base/error.h"
#include "engine/data/json_lines_json.h"

namespace tessera::engine {
namespace {

std::string_view TextOf(const MappedFile& file, int64_t begin, int64_t end) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.bytes().size());
  return text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

// Takes the next line off `text`, without its end.
std::string_view TakeLine(std::string_view& text) {
  const size_t newline = text.find('\n');
  std::string_view line = text.substr(0, newline);
  text.remove_prefix(newline == std::string_view::npos ? text.size() : newline + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

[[noreturn]] void ThrowBrokenRecord(const MappedFile& file, int64_t line_begin,
                                    const JsonLine& record) {
  const std::string_view before = TextOf(file, 0, line_begin);
  const auto line_number = std::count(before.begin(), before.end(), '\n') + 1;
  throw base::ConfigError(file.path(), base::Concat("line ", line_number), record.found,
                          record.expected);
}

// Appends documents to a chunk.
class ChunkWriter {
 public:
  ChunkWriter(TextEncoder& encoder, std::optional<int32_t> end_of_document, TokenizedChunk& out)
      : encoder_(encoder), end_of_document_(end_of_document), out_(out) {}

  void AddText(std::string_view text) { encoder_.Encode(text, out_.tokens); }
  // Of the text since the last end; without tokens it is no document.
  void EndDocument() {
    if (static_cast<int64_t>(out_.tokens.size()) == begin_) {
      ++out_.num_empty_documents;
      return;
    }
    if (end_of_document_) out_.tokens.push_back(*end_of_document_);
    const auto end = static_cast<int64_t>(out_.tokens.size());
    out_.document_lengths.push_back(end - begin_);
    begin_ = end;
  }

 private:
  TextEncoder& encoder_;
  std::optional<int32_t> end_of_document_;
  TokenizedChunk& out_;
  int64_t begin_ = 0;
};

// Part of a document that is the whole file: it ends with the file's last chunk.
void AddPartOfFile(const MappedFile& file, const TextChunk& chunk, ChunkWriter& writer) {
  writer.AddText(TextOf(file, chunk.begin, chunk.end));
  if (chunk.end == file.size_bytes()) writer.EndDocument();
}

// The end of a chunk that is about to end at `end`, inside the file.
int64_t MoveEnd(const MappedFile& file, const TextInput& input, int64_t end,
                const Tokenizer& tokenizer) {
  const std::string_view text = TextOf(file, 0, file.size_bytes());
  const auto from = static_cast<size_t>(end);
  if (input.unit == DocumentUnit::kFile) {
    const size_t cut = tokenizer.FindCut(text, from);
    return cut == std::string_view::npos ? file.size_bytes() : static_cast<int64_t>(cut);
  }
  const size_t newline = text.find('\n', from - 1);
  return newline == std::string_view::npos ? file.size_bytes() : static_cast<int64_t>(newline) + 1;
}

}  // namespace

std::vector<TextChunk> CutIntoChunks(const MappedFile& file, const TextInput& input,
                                     int64_t input_number, int64_t chunk_bytes,
                                     const Tokenizer& tokenizer) {
  TESSERA_CHECK(chunk_bytes > 0, chunk_bytes);
  std::vector<TextChunk> chunks;
  const int64_t size = file.size_bytes();
  int64_t begin = 0;
  do {
    int64_t end = begin + std::min(chunk_bytes, size - begin);
    if (end < size) end = MoveEnd(file, input, end, tokenizer);
    chunks.push_back({.input = input_number, .begin = begin, .end = end});
    begin = end;
  } while (begin < size);
  return chunks;
}

TokenizedChunk TokenizeChunk(const MappedFile& file, const TextInput& input, const TextChunk& chunk,
                             TextEncoder& encoder, std::optional<int32_t> end_of_document) {
  TokenizedChunk out;
  ChunkWriter writer(encoder, end_of_document, out);
  if (input.unit == DocumentUnit::kFile) {
    AddPartOfFile(file, chunk, writer);
    return out;
  }
  std::string_view rest = TextOf(file, chunk.begin, chunk.end);
  while (!rest.empty()) {
    const int64_t line_begin = chunk.end - static_cast<int64_t>(rest.size());
    const std::string_view line = TakeLine(rest);
    if (input.unit == DocumentUnit::kLine) {
      writer.AddText(line);
      writer.EndDocument();
      continue;
    }
    if (IsBlank(line)) continue;
    const JsonLine record = ReadJsonLine(line, input.json_key);
    if (!record.text) ThrowBrokenRecord(file, line_begin, record);
    writer.AddText(*record.text);
    writer.EndDocument();
  }
  return out;
}

}  // namespace tessera::engine
