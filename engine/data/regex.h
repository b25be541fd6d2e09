// A regular expression as tokenizers write them, by the PCRE2 library.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::engine {

// Compiled once; safe to search with from several threads.
class Regex {
 public:
  enum class Subject {
    kUtf8,   // characters, their classes and cases those of Unicode
    kBytes,  // any bytes
  };

  // `\s` is Unicode's property White_Space, as in the regular expressions of Rust and Python that
  // tokenizers are written for. Throws base::ConfigError naming `where` for a broken expression.
  Regex(const std::string& pattern, Subject subject, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  // One thread's scratch memory. The expression must outlive it.
  class Search {
   public:
    explicit Search(const Regex& regex);
    ~Search();
    Search(Search&&) noexcept;

    // The first match at or after `begin` that is not empty. Throws base::ConfigError where the
    // library gives up. REQUIRES: for kUtf8, text that is UTF-8 and `begin` between characters.
    std::optional<Match> Find(std::string_view text, size_t begin);

   private:
    struct Scratch;
    std::unique_ptr<Scratch> scratch_;
  };

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace tessera::engine
