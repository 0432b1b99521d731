#include "cli/words.h"

#include "cli/error.h"
#include "cli/log.h"

#include <cstring>
#include <string_view>

namespace tl::cli {

namespace {

class Splitter {
public:
  explicit Splitter(std::string_view line) : line_(line) {}

  std::vector<std::string> run() {
    while (at_ < line_.size()) step(line_[at_++]);
    finish_word();
    return std::move(words_);
  }

private:
  void step(char c) {
    switch (c) {
    case ' ':
    case '\t':
      finish_word();
      return;
    case '\'':
      quoted('\'', "");
      return;
    case '"':
      quoted('"', "$`\\");
      return;
    case '\\':
      if (at_ == line_.size() || line_[at_] == '\n') refuse(c);
      add(line_[at_++]);
      return;
    default:
      const bool first = !in_word_;
      if (std::strchr("|&;<>()$`*?[]{}!\n\r", c) || (first && std::strchr("#~", c))) refuse(c);
      add(c);
    }
  }

  void quoted(char end, std::string_view refused) {
    in_word_ = true;
    const std::size_t close = line_.find(end, at_);
    if (close == std::string_view::npos)
      throw UsageError(std::string("a quotation mark ") + end + " is left open");
    const std::string_view text = line_.substr(at_, close - at_);
    const std::size_t bad = text.find_first_of(refused);
    if (bad != std::string_view::npos) refuse(text[bad]);
    word_ += text;
    at_ = close + 1;
  }

  void add(char c) {
    in_word_ = true;
    word_ += c;
  }

  void finish_word() {
    if (in_word_) words_.push_back(std::move(word_));
    word_.clear();
    in_word_ = false;
  }

  [[noreturn]] static void refuse(char c) {
    throw UsageError("no shell reads this command; '" + printable(std::string(1, c)) + "' has to be quoted");
  }

  std::string_view line_;
  std::size_t at_ = 0;
  std::vector<std::string> words_;
  std::string word_;
  bool in_word_ = false; // also of an empty word: ''
};

} // namespace

std::vector<std::string> split_words(const std::string &line) {
  if (line.find('\0') != std::string::npos) throw UsageError("a command holds no zero bytes");
  return Splitter(line).run();
}

} // namespace tl::cli
