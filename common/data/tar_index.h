// Private to common/data: what a tar holds and where, found by reading its headers only.
//
// V7, ustar, GNU (long names, sparse members) and pax (IEEE Std 1003.1-2001, "pax Interchange Format").
// libarchive is not used for this: it brings names into composed Unicode, or replaces their bytes in the
// C locale, and takes an archive that lost its end for a whole one.
#pragma once

#include "data/random_bytes.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tl::data {

enum class MemberKind { file, folder, hard_link, symbolic_link, special };

struct TarMember {
  std::string name; // as stored, any bytes but NUL
  MemberKind kind = MemberKind::file;
  std::string target;      // of links, as stored
  bool sparse = false;     // the stored bytes are the parts that are not zero, and where they belong
  std::int64_t header = 0; // where its headers begin
  std::int64_t data = 0;   // where its content begins
  std::int64_t size = 0;   // of the content as it is stored
};

struct TarIndex {
  std::vector<TarMember> members; // as they stand
  /// Why nothing more could be read, in words; "" when the archive is whole. An archive ends in two
  /// blocks of zeros, after which only zeros or another archive may follow.
  std::string damage;
};

/// A block is so large, and headers and contents fill whole ones.
constexpr std::int64_t kTarBlock = 512;

/// True when a tar may begin with these bytes: a header whose checksum is right, or the end of an empty
/// archive.
bool begins_tar(std::string_view head);

/// Throws what `tar` throws, and Interrupted; never for damage.
TarIndex index_tar(const RandomBytes &tar);

} // namespace tl::data
