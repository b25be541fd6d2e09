#include "engine/data/regex.h"

#include <array>
#include <cstdint>

#include "cost_model/base/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace tessera::engine {
namespace {

// Bytes that matching code from the just-in-time compiler may take for backtracking.
constexpr size_t kFirstStackBytes = size_t{32} << 10;
constexpr size_t kMaxStackBytes = size_t{1} << 20;

std::string MessageOf(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// The library's `\s` also takes U+180E, which is no white space any more since Unicode 6.3.
std::string WithUnicodeSpaces(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view escape = pattern.substr(i, 2);
    if (escape == "\\s") {
      out += "\\p{White_Space}";
    } else if (escape == "\\S") {
      out += "\\P{White_Space}";
    } else {
      out += pattern[i] == '\\' ? escape : pattern.substr(i, 1);
    }
    if (pattern[i] == '\\') ++i;
  }
  return out;
}

template <typename T, void (*Free)(T*)>
struct Freed {
  void operator()(T* object) const { Free(object); }
};
template <typename T, void (*Free)(T*)>
using Owned = std::unique_ptr<T, Freed<T, Free>>;

using Code = Owned<pcre2_code, pcre2_code_free>;
using MatchData = Owned<pcre2_match_data, pcre2_match_data_free>;
using MatchContext = Owned<pcre2_match_context, pcre2_match_context_free>;
using JitStack = Owned<pcre2_jit_stack, pcre2_jit_stack_free>;

}  // namespace

struct Regex::Compiled {
  Code code;
  std::string where;
};

struct Regex::Search::Scratch {
  const Compiled& compiled;
  MatchData match;
  MatchContext context;
  JitStack stack;
};

Regex::Regex(const std::string& pattern, Subject subject, const std::string& where) {
  const bool is_utf8 = subject == Subject::kUtf8;
  const std::string translated = is_utf8 ? WithUnicodeSpaces(pattern) : pattern;
  // Without its start optimizations the library never reads far ahead of a match.
  const uint32_t options = is_utf8 ? PCRE2_UTF | PCRE2_UCP | PCRE2_NO_START_OPTIMIZE : 0;
  int error = 0;
  size_t offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                          options, &error, &offset, nullptr));
  if (!code) {
    throw base::ConfigError(where, "",
                            base::Concat("the expression \"", pattern, "\" (", MessageOf(error),
                                         " at byte ", offset, " of \"", translated, "\")"),
                            "a regular expression");
  }
  // Where there is no compiler for this processor, matching is interpreted.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  compiled_ = std::make_unique<Compiled>(Compiled{.code = std::move(code), .where = where});
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

Regex::Search::Search(const Regex& regex)
    : scratch_(new Scratch{
          .compiled = *regex.compiled_,
          .match = MatchData(pcre2_match_data_create(1, nullptr)),
          .context = MatchContext(pcre2_match_context_create(nullptr)),
          .stack = JitStack(pcre2_jit_stack_create(kFirstStackBytes, kMaxStackBytes, nullptr))}) {
  pcre2_jit_stack_assign(scratch_->context.get(), nullptr, scratch_->stack.get());
}

Regex::Search::~Search() = default;
Regex::Search::Search(Search&&) noexcept = default;

std::optional<Regex::Match> Regex::Search::Find(std::string_view text, size_t begin) {
  const int status = pcre2_match(
      scratch_->compiled.code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
      PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK, scratch_->match.get(), scratch_->context.get());
  if (status == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (status < 0) {
    throw base::ConfigError(scratch_->compiled.where, "",
                            base::Concat("an expression too hard to match (", MessageOf(status),
                                         ") at byte ", begin, " of a text"),
                            "one that matches words");
  }
  const size_t* const ends = pcre2_get_ovector_pointer(scratch_->match.get());
  return Match{.begin = ends[0], .end = ends[1]};
}

}  // namespace tessera::engine
