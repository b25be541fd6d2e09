#include "engine/data/token_store.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>
#include <type_traits>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

// Work that one thread takes at a time: large beside the cost of starting a thread.
constexpr int64_t kTokensPerPiece = int64_t{1} << 24;

// Calls visit(T{}) with the C++ type of the stored ids.
template <typename Visit>
void VisitTokenType(TokenType type, const Visit& visit) {
  switch (type) {
    case TokenType::kUInt8:
      return visit(uint8_t{});
    case TokenType::kInt8:
      return visit(int8_t{});
    case TokenType::kUInt16:
      return visit(uint16_t{});
    case TokenType::kInt16:
      return visit(int16_t{});
    case TokenType::kInt32:
      return visit(int32_t{});
    case TokenType::kUInt32:
      return visit(uint32_t{});
    case TokenType::kInt64:
      return visit(int64_t{});
  }
}

struct Extremes {
  int64_t lowest = std::numeric_limits<int64_t>::max();
  int64_t highest = -1;
};

Extremes FindExtremes(const TokenView& view) {
  Extremes extremes;
  VisitTokenType(view.type, [&](auto zero) {
    using T = decltype(zero);
    T lowest = std::numeric_limits<T>::max();
    T highest = std::numeric_limits<T>::lowest();
    for (int64_t i = 0; i < view.num_tokens; ++i) {
      const T token = LoadAt<T>(view.data + i * static_cast<int64_t>(sizeof(T)));
      lowest = std::min(lowest, token);
      highest = std::max(highest, token);
    }
    extremes = {.lowest = static_cast<int64_t>(lowest), .highest = static_cast<int64_t>(highest)};
  });
  return extremes;
}

bool IsTokenId(int64_t id) { return id >= 0 && id <= std::numeric_limits<int32_t>::max(); }

[[noreturn]] void ThrowFirstBadToken(const MappedFile& file, const TokenView& view) {
  VisitTokenType(view.type, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < view.num_tokens; ++i) {
      const std::byte* const address = view.data + i * static_cast<int64_t>(sizeof(T));
      const auto id = static_cast<int64_t>(LoadAt<T>(address));
      if (IsTokenId(id)) continue;
      throw base::ConfigError(file.path(), base::Concat("byte ", address - file.data()),
                              base::Concat("token ", id), "a token from 0 to 2147483647");
    }
  });
  base::FailCheck(__FILE__, __LINE__, "bad token found", file.path());
}

// The tokens of the sequences in file order, neighbours joined and long runs cut, so that millions
// of short documents and one long document are both pieces of about the same size.
std::vector<TokenView> CutIntoPieces(const TokenStore& store, SequenceRange range) {
  std::vector<TokenView> pieces;
  const int64_t token_size = SizeBytes(store.token_type());
  for (int64_t i = 0; i < range.count; ++i) {
    TokenView rest = store.Sequence(range.first + i);
    while (rest.num_tokens > 0) {
      const bool joins = !pieces.empty() && pieces.back().num_tokens < kTokensPerPiece &&
                         pieces.back().data + pieces.back().num_tokens * token_size == rest.data;
      if (!joins) pieces.push_back({.data = rest.data, .num_tokens = 0, .type = rest.type});
      TokenView& piece = pieces.back();
      const int64_t taken = std::min(rest.num_tokens, kTokensPerPiece - piece.num_tokens);
      piece.num_tokens += taken;
      rest.data += taken * token_size;
      rest.num_tokens -= taken;
    }
  }
  return pieces;
}

}  // namespace

int64_t SizeBytes(TokenType type) {
  int64_t size_bytes = 0;
  VisitTokenType(type, [&](auto zero) { size_bytes = sizeof(zero); });
  return size_bytes;
}

std::string_view ToString(TokenType type) {
  switch (type) {
    case TokenType::kUInt8:
      return "uint8";
    case TokenType::kInt8:
      return "int8";
    case TokenType::kUInt16:
      return "uint16";
    case TokenType::kInt16:
      return "int16";
    case TokenType::kInt32:
      return "int32";
    case TokenType::kUInt32:
      return "uint32";
    case TokenType::kInt64:
      return "int64";
  }
  return "?";
}

TokenType OptimalTokenType(int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::kUInt16 : TokenType::kInt32;
}

void CopyTokens(const TokenView& view, int64_t first, int64_t count, int32_t* out) {
  TESSERA_CHECK(first >= 0 && count >= 0 && first <= view.num_tokens - count, "tokens ", first,
                " and ", count, " more of ", view.num_tokens);
  VisitTokenType(view.type, [&](auto zero) {
    using T = decltype(zero);
    const std::byte* const begin = view.data + first * static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<int32_t>(LoadAt<T>(begin + i * static_cast<int64_t>(sizeof(T))));
    }
  });
}

int32_t FindMaxToken(const TokenStore& store) {
  return FindMaxToken(store, {.first = 0, .count = store.num_sequences()});
}

int32_t FindMaxToken(const TokenStore& store, SequenceRange range) {
  const std::vector<TokenView> pieces = CutIntoPieces(store, range);
  std::vector<Extremes> found(pieces.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < pieces.size(); i = next++) found[i] = FindExtremes(pieces[i]);
  };
  {
    const size_t num_threads = std::min<size_t>(pieces.size(), std::thread::hardware_concurrency());
    std::vector<std::jthread> helpers;
    for (size_t i = 1; i < num_threads; ++i) helpers.emplace_back(work);
    work();
  }
  int64_t highest = -1;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!IsTokenId(found[i].lowest) || !IsTokenId(found[i].highest)) {
      ThrowFirstBadToken(store.token_bytes(), pieces[i]);
    }
    highest = std::max(highest, found[i].highest);
  }
  return static_cast<int32_t>(highest);
}

}  // namespace tessera::engine
