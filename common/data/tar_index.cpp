#include "data/tar_index.h"

#include "cli/error.h"
#include "cli/log.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

namespace tl::data {

namespace {

// What describes a member beside its header. The kernel knows no path of more than 4096 bytes.
constexpr std::int64_t kMaxExtension = std::int64_t{1} << 20;
constexpr std::size_t kMaxName = 4096;

using Block = std::array<char, kTarBlock>;

/// Where the fields of a header stand, and how long they are.
struct Field {
  std::size_t offset, length;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kTarget{157, 100}, kMagic{257, 6},
    kPrefix{345, 155};
constexpr std::size_t kType = 156, kGnuExtended = 482, kGnuMore = 504;

std::string_view field(const Block &block, Field at) { return {block.data() + at.offset, at.length}; }

/// Up to the first NUL.
std::string text(std::string_view bytes) { return std::string(bytes.substr(0, bytes.find('\0'))); }

bool zero(const char *bytes, std::size_t size) {
  return std::all_of(bytes, bytes + size, [](char c) { return c == 0; });
}

/// An octal number in spaces and NULs, or one in base 256, big-endian, marked by the first bit.
std::int64_t number(std::string_view bytes, const char *what) {
  const auto wrong = [&] { return FormatError(std::string(what) + " in a header is no number"); };
  std::int64_t value = 0;
  if (bytes[0] & '\x80') {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const int digit = static_cast<unsigned char>(bytes[i]) & (i == 0 ? 0x7F : 0xFF);
      if (value > (INT64_MAX >> 8)) throw wrong();
      value = value << 8 | digit;
    }
    return value;
  }
  const std::size_t begin = std::min(bytes.find_first_not_of(' '), bytes.size());
  const std::size_t end = std::min(bytes.find_first_of(std::string_view(" \0", 2), begin), bytes.size());
  for (const char c : bytes.substr(begin, end - begin)) {
    if (c < '0' || c > '7') throw wrong();
    value = value * 8 + (c - '0');
  }
  return value;
}

/// Old programs summed signed characters.
bool checksum_fits(const Block &block) {
  std::int64_t stored = 0, plain = 0, with_sign = 0;
  try {
    stored = number(field(block, kChecksum), "the checksum");
  } catch (const FormatError &) {
    return false;
  }
  for (std::size_t i = 0; i < block.size(); ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.length;
    plain += own ? ' ' : static_cast<unsigned char>(block[i]);
    with_sign += own ? ' ' : static_cast<signed char>(block[i]);
  }
  return stored == plain || stored == with_sign;
}

std::int64_t decimal(std::string_view digits) {
  if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != digits.npos)
    throw FormatError("damaged pax header: no number where one belongs");
  return std::atoll(std::string(digits).c_str());
}

/// Records "length key=value\n" of a pax header: those that matter here, added to what is there already.
void read_pax(std::string_view rest, std::map<std::string, std::string> &values) {
  while (!rest.empty() && !zero(rest.data(), rest.size())) {
    const std::size_t space = rest.find(' ');
    const std::size_t length = static_cast<std::size_t>(decimal(rest.substr(0, space)));
    const std::size_t equals = rest.find('=');
    if (length > rest.size() || equals == rest.npos || equals < space || equals + 1 >= length ||
        rest[length - 1] != '\n')
      throw FormatError("damaged pax header");
    const std::string_view key = rest.substr(space + 1, equals - space - 1);
    if (key == "path" || key == "linkpath" || key == "size" || key == "GNU.sparse.name")
      values[std::string(key)] = rest.substr(equals + 1, length - equals - 2);
    else if (key.substr(0, 11) == "GNU.sparse.")
      values["GNU.sparse."] = "1";
    rest.remove_prefix(length);
  }
}

class Indexer {
public:
  explicit Indexer(const RandomBytes &tar) : tar_(tar) {}

  TarIndex run() {
    try {
      while (at_ < tar_.size()) {
        check_interrupt();
        block();
      }
      if (zeros_ < 2 || pending())
        throw FormatError("ends without the two blocks of zeros that end an archive: it was cut off, or the "
                          "command that wrote it failed");
    } catch (const FormatError &error) {
      index_.damage = "byte " + std::to_string(at_) + ": " + error.what();
    }
    return std::move(index_);
  }

private:
  bool pending() const { return header_ >= 0; }

  Block read_block(std::int64_t at) const {
    Block block = {};
    if (at > tar_.size() - kTarBlock) throw FormatError("cut off inside a header");
    tar_.read(at, block.data(), block.size());
    return block;
  }

  void block() {
    if (zeros_ >= 2 && tar_.size() - at_ < kTarBlock) {
      Block rest = {};
      tar_.read(at_, rest.data(), static_cast<std::size_t>(tar_.size() - at_));
      if (!zero(rest.data(), rest.size())) throw not_a_header();
      at_ = tar_.size();
      return;
    }
    const Block block = read_block(at_);
    if (zero(block.data(), block.size()) && !pending()) {
      ++zeros_;
      at_ += kTarBlock;
      return;
    }
    if (!checksum_fits(block)) throw not_a_header();
    if (zeros_ == 1) throw FormatError("follows a lone block of zeros; two end an archive");
    if (zeros_ > 0) global_.clear(); // the archive that is joined here has its own
    zeros_ = 0;
    if (!pending()) header_ = at_;
    header(block);
  }

  FormatError not_a_header() const {
    return FormatError(zeros_ > 0 ? "what follows the archive's end is no archive"
                                  : "damaged: no header of a member is here");
  }

  void header(const Block &block) {
    const char type = block[kType];
    const std::int64_t size = number(field(block, kSize), "the size");
    if (type == 'M') throw FormatError("one volume of several; join them first");
    if (type == 'L' || type == 'K' || type == 'x' || type == 'X' || type == 'g') {
      extension(type, size);
      return;
    }
    if (type != 'V')
      member(block, size); // a volume's label is none
    else
      at_ += kTarBlock;
    local_.clear();
    long_name_.clear();
    long_target_.clear();
    header_ = -1;
  }

  void extension(char type, std::int64_t size) {
    if (size > kMaxExtension)
      throw FormatError("an extended header of " + std::to_string(size) + " bytes, more than any needs");
    std::string content(static_cast<std::size_t>(size), '\0');
    advance(at_ + kTarBlock, size, "an extended header");
    tar_.read(content_, content.data(), content.size());
    if (type == 'L')
      long_name_ = text(content);
    else if (type == 'K')
      long_target_ = text(content);
    else
      read_pax(content, type == 'g' ? global_ : local_);
    if (type == 'g' && local_.empty() && long_name_.empty() && long_target_.empty()) header_ = -1;
  }

  /// The pax header's value, the member's own before that of all members; "" when there is none.
  std::string pax(const std::string &key) const {
    for (const auto *values : {&local_, &global_})
      if (const auto found = values->find(key); found != values->end()) return found->second;
    return "";
  }

  static MemberKind kind_of(char type, bool slash) {
    switch (type) {
    case '0':
    case '\0':
    case '7':
      return slash ? MemberKind::folder : MemberKind::file;
    case 'S':
      return MemberKind::file;
    case '1':
      return MemberKind::hard_link;
    case '2':
      return MemberKind::symbolic_link;
    case '5':
    case 'D':
      return MemberKind::folder;
    default:
      return MemberKind::special;
    }
  }

  std::string name_of(const Block &block) const {
    std::string name = pax("GNU.sparse.name");
    if (name.empty()) name = pax("path");
    if (name.empty()) name = long_name_;
    if (name.empty()) {
      // GNU's own headers use the place of the prefix for other things.
      const bool posix = field(block, kMagic) == std::string_view("ustar\0", 6);
      const std::string prefix = posix ? text(field(block, kPrefix)) : "";
      name = (prefix.empty() ? "" : prefix + "/") + text(field(block, kName));
    }
    if (name.empty() || name.size() > kMaxName || name.find('\0') != name.npos)
      throw FormatError(name.empty() ? "a member without a name"
                                     : "a member's name that no file can have: with NUL, or over 4096 bytes");
    return name;
  }

  void member(const Block &block, std::int64_t size) {
    const char type = block[kType];
    TarMember member;
    member.header = header_;
    member.name = name_of(block);
    member.kind = kind_of(type, member.name.back() == '/');
    if (const std::string value = pax("size"); !value.empty()) size = decimal(value);
    member.target = pax("linkpath");
    if (member.target.empty()) member.target = long_target_;
    if (member.target.empty()) member.target = text(field(block, kTarget));
    member.sparse = type == 'S' || local_.count("GNU.sparse.") > 0;
    std::int64_t data = at_ + kTarBlock;
    if (type == 'S')
      for (bool more = block[kGnuExtended] != 0; more; data += kTarBlock) {
        check_interrupt();
        more = read_block(data)[kGnuMore] != 0;
      }
    // Links, devices and folders have a size in some headers, but no content.
    const bool empty = std::string_view("123456").find(type) != std::string_view::npos;
    advance(data, empty ? 0 : size, cli::printable(member.name));
    member.data = content_;
    member.size = empty ? 0 : size;
    index_.members.push_back(std::move(member));
  }

  /// Goes past `size` bytes at `begin`, which must all be there; what fills their last block need not.
  void advance(std::int64_t begin, std::int64_t size, const std::string &what) {
    const std::int64_t there = tar_.size() - begin;
    if (size > there)
      throw FormatError("cut off inside " + what + ": " + std::to_string(std::max<std::int64_t>(there, 0)) +
                        " of " + std::to_string(size) + " bytes are there");
    content_ = begin;
    at_ = begin + std::min(there, (size + kTarBlock - 1) / kTarBlock * kTarBlock);
  }

  const RandomBytes &tar_;
  TarIndex index_;
  std::int64_t at_ = 0;
  std::int64_t header_ = -1; // where the headers of the next member began; -1: they did not yet
  std::int64_t content_ = 0; // of the last member
  int zeros_ = 0;            // blocks in a row
  std::map<std::string, std::string> local_, global_; // pax values of the next member, of all
  std::string long_name_, long_target_;
};

} // namespace

bool begins_tar(std::string_view head) {
  if (head.size() < static_cast<std::size_t>(kTarBlock)) return false;
  Block block;
  std::copy_n(head.data(), block.size(), block.data());
  return zero(block.data(), block.size()) || checksum_fits(block);
}

TarIndex index_tar(const RandomBytes &tar) { return Indexer(tar).run(); }

} // namespace tl::data
