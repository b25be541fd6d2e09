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

void AddDocument(std::string_view text, const ByteTokenizer& tokenizer, TokenizedChunk& out) {
  if (text.empty()) {
    ++out.num_empty_documents;
    return;
  }
  const size_t old_size = out.tokens.size();
  tokenizer.Encode(text, out.tokens);
  if (tokenizer.has_end_of_document()) out.tokens.push_back(ByteTokenizer::kEndOfDocument);
  out.document_lengths.push_back(static_cast<int64_t>(out.tokens.size() - old_size));
}

// Part of a document that is the whole file: it ends with the file's last chunk.
TokenizedChunk TokenizePartOfFile(const MappedFile& file, const TextChunk& chunk,
                                  const ByteTokenizer& tokenizer) {
  TokenizedChunk out;
  tokenizer.Encode(TextOf(file, chunk.begin, chunk.end), out.tokens);
  if (chunk.end < file.size_bytes()) return out;
  if (file.size_bytes() == 0) {
    out.num_empty_documents = 1;
    return out;
  }
  if (tokenizer.has_end_of_document()) out.tokens.push_back(ByteTokenizer::kEndOfDocument);
  out.document_lengths.push_back(static_cast<int64_t>(out.tokens.size()));
  return out;
}

}  // namespace

std::vector<TextChunk> CutIntoChunks(const MappedFile& file, const TextInput& input,
                                     int64_t input_number, int64_t chunk_bytes) {
  TESSERA_CHECK(chunk_bytes > 0, chunk_bytes);
  std::vector<TextChunk> chunks;
  const int64_t size = file.size_bytes();
  int64_t begin = 0;
  do {
    int64_t end = begin + std::min(chunk_bytes, size - begin);
    if (input.unit != DocumentUnit::kFile && end < size) {
      const size_t newline = TextOf(file, end - 1, size).find('\n');
      end = newline == std::string_view::npos ? size : end + static_cast<int64_t>(newline);
    }
    chunks.push_back({.input = input_number, .begin = begin, .end = end});
    begin = end;
  } while (begin < size);
  return chunks;
}

TokenizedChunk TokenizeChunk(const MappedFile& file, const TextInput& input, const TextChunk& chunk,
                             const ByteTokenizer& tokenizer) {
  if (input.unit == DocumentUnit::kFile) return TokenizePartOfFile(file, chunk, tokenizer);
  TokenizedChunk out;
  std::string_view rest = TextOf(file, chunk.begin, chunk.end);
  while (!rest.empty()) {
    const int64_t line_begin = chunk.end - static_cast<int64_t>(rest.size());
    const std::string_view line = TakeLine(rest);
    if (input.unit == DocumentUnit::kLine) {
      AddDocument(line, tokenizer, out);
      continue;
    }
    if (IsBlank(line)) continue;
    const JsonLine record = ReadJsonLine(line, input.json_key);
    if (!record.text) ThrowBrokenRecord(file, line_begin, record);
    AddDocument(*record.text, tokenizer, out);
  }
  return out;
}

}  // namespace tessera::engine
