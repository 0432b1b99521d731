// Tars made block by block, so that each can be wrong in its own way.
#pragma once

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <archive.h>
#include <archive_entry.h>

namespace tl::test {

using Members = std::vector<std::pair<std::string, std::string>>; // name, content

struct TarHeader {
  std::string name;
  std::int64_t size = 0;
  char type = '0';
  std::string target{};
  std::string prefix{};
  std::string magic{"ustar\0"
                    "00",
                    8};
  std::string raw_size{}; // instead of `size`, as it stands
};

inline std::string tar_padding(std::size_t size) { return std::string((512 - size % 512) % 512, '\0'); }

inline std::string tar_block(const TarHeader &header) {
  std::string block(512, '\0');
  const auto put = [&](std::size_t at, const std::string &text) { block.replace(at, text.size(), text); };
  char octal[13];
  std::snprintf(octal, sizeof octal, "%011llo", static_cast<unsigned long long>(header.size));
  put(0, header.name.substr(0, 100));
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, header.raw_size.empty() ? std::string(octal) : header.raw_size);
  put(136, "00000000000");
  put(148, "        ");
  block[156] = header.type;
  put(157, header.target.substr(0, 100));
  put(257, header.magic);
  put(345, header.prefix);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  put(148, std::string(octal, 7));
  return block;
}

/// Header, content, and what fills the last block.
inline std::string tar_member(TarHeader header, const std::string &content) {
  header.size = static_cast<std::int64_t>(content.size());
  return tar_block(header) + content + tar_padding(content.size());
}
inline std::string tar_member(const std::string &name, const std::string &content) {
  TarHeader header;
  header.name = name;
  return tar_member(header, content);
}
inline std::string tar_link(const std::string &name, char type, const std::string &target) {
  TarHeader header;
  header.name = name;
  header.type = type;
  header.target = target;
  return tar_block(header);
}

/// One record of a pax header, whose length counts itself.
inline std::string pax_record(const std::string &key, const std::string &value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size();
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}
/// 'x': a pax header of the next member. 'g': of all. 'L', 'K': GNU's long name, and target of a link.
inline std::string tar_extension(char type, const std::string &content) {
  TarHeader header;
  header.name = "extension";
  header.type = type;
  return tar_member(header, content);
}

inline std::string tar_end() { return std::string(1024, '\0'); }

inline std::string make_tar(const Members &members) {
  std::string bytes;
  for (const auto &[name, content] : members) bytes += tar_member(name, content);
  return bytes + tar_end();
}

/// As libarchive packs: "gzip", "xz", "zstd", "bzip2", "lz4", "lzip".
inline std::string packed(const std::string &bytes, const std::string &filter) {
  archive *writer = archive_write_new();
  archive_write_add_filter_by_name(writer, filter.c_str());
  archive_write_set_format_raw(writer);
  archive_write_set_bytes_per_block(writer, 0);
  std::string out(bytes.size() * 2 + 65536, '\0');
  std::size_t used = 0;
  archive_entry *entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  const bool done = archive_write_open_memory(writer, out.data(), out.size(), &used) == ARCHIVE_OK &&
                    archive_write_header(writer, entry) == ARCHIVE_OK &&
                    archive_write_data(writer, bytes.data(), bytes.size()) >= 0 &&
                    archive_write_close(writer) == ARCHIVE_OK;
  archive_entry_free(entry);
  archive_write_free(writer);
  if (!done) throw std::runtime_error("cannot pack by " + filter);
  out.resize(used);
  return out;
}

} // namespace tl::test
