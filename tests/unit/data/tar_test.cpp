#include "cli/error.h"
#include "data/decode.h"
#include "data/loader.h"
#include "data/source.h"
#include "support/datasets.h"
#include "support/files.h"
#include "support/tar.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

using namespace tl;
using namespace tl::data;
using namespace tl::test;

namespace {

std::string content(const Dataset &dataset, std::size_t index) {
  const Encoded record = dataset.read(index);
  CHECK(record.is_file);
  std::string bytes(record.content.as<char>(), record.content.bytes());
  CHECK(record.hash == hash_text(bytes));
  return bytes;
}

Names contents(const Dataset &dataset) {
  Names all;
  for (std::size_t i = 0; i < dataset.records().size(); ++i) all.push_back(content(dataset, i));
  return all;
}

/// Opens bytes as the file "set.tar".
Dataset open_bytes(const TempFolder &folder, const std::string &bytes, const std::string &format = "tar") {
  SourceOptions options;
  options.format = format;
  return Dataset::open(folder.write("set.tar", bytes), options);
}

void refused(const std::string &bytes, const char *reason) {
  const TempFolder folder;
  CHECK_THROWS_WITH_AS(open_bytes(folder, bytes), doctest::Contains(reason), FormatError);
  CHECK_THROWS_WITH_AS(open_bytes(folder, bytes), doctest::Contains("set.tar: "), FormatError);
}

const Members kPhotos = {{"b/2.png", "two"},       {"b/10.png", "ten"}, {"a/z/3.jpg", "three"},
                         {"a/B.jpg", "B"},         {"a.x/1.png", "ax"}, {"b/.hidden", "h"},
                         {".git/config", "g"},     {".git/HEAD", "g"},  {"b/._2.png", "h"},
                         {"README.txt", "beside"}, {"9/x", "nine"}};

} // namespace

TEST_CASE("a packed folder is the folder: ids, labels, order, hidden names and contents") {
  const TempFolder folder;
  for (const auto &[name, bytes] : kPhotos) folder.write("photos/" + name, bytes);
  std::filesystem::create_directory(folder.path("photos/empty"));
  const Dataset expected = Dataset::open(folder.path("photos"));
  REQUIRE(ids(expected) == Names{"9/x", "a/B.jpg", "a/z/3.jpg", "a.x/1.png", "b/10.png", "b/2.png"});
  for (const std::string root : {"", "./", "photos/", "./photos/", "home/me/photos/", "/data/photos/"}) {
    CAPTURE(root);
    std::string bytes = root.empty() ? "" : tar_link(root, '5', "");
    for (const auto &[name, text] : kPhotos) bytes += tar_member(root + name, text);
    bytes += tar_link(root + "empty/", '5', "");
    const Dataset packed = open_bytes(folder, bytes + tar_end());
    CHECK(ids(packed) == ids(expected));
    CHECK(labels(packed) == labels(expected));
    CHECK(packed.classes() == expected.classes());
    CHECK(packed.hidden() == expected.hidden());
    CHECK(contents(packed) == contents(expected));
    CHECK(noted(packed, "1 file(s) beside"));
    CHECK(noted(packed, "class 'empty' has no file"));
    CHECK(noted(packed, "'/' before") == (root[0] == '/'));
  }
}

TEST_CASE("without class folders there are no labels; one class is a class") {
  const TempFolder folder;
  const Dataset flat = open_bytes(folder, make_tar({{"2.png", "x"}, {"1.png", "y"}}));
  CHECK(ids(flat) == Names{"1.png", "2.png"});
  CHECK(labels(flat) == Labels{-1, -1});
  CHECK(noted(flat, "no labels"));
  const Dataset one = open_bytes(folder, make_tar({{"cat/2.png", "x"}, {"cat/1.png", "y"}}));
  CHECK(one.classes() == Names{"cat"});
  CHECK(ids(one) == Names{"cat/1.png", "cat/2.png"});
  CHECK(open_bytes(folder, tar_end()).records().empty());
  CHECK(open_bytes(folder, std::string(10240, '\0')).records().empty());
}

TEST_CASE("a split is a folder in the tar") {
  const TempFolder folder;
  for (const std::string root : {"", "set/"}) {
    const std::string bytes =
        make_tar({{root + "train/a/1", "1"}, {root + "train/b/2", "2"}, {root + "val/a/3", "3"}});
    SourceOptions options;
    options.split = "train";
    const Dataset train = Dataset::open(folder.write("set.tar", bytes), options);
    CHECK(ids(train) == Names{"a/1", "b/2"});
    options.split = "test";
    CHECK_THROWS_WITH_AS(Dataset::open(folder.path("set.tar"), options), doctest::Contains("'test'"),
                         UsageError);
  }
  SourceOptions options;
  options.split = "train"; // the only one in it
  CHECK(ids(Dataset::open(folder.write("set.tar", make_tar({{"train/a/1", "1"}})), options)) == Names{"a/1"});
}

TEST_CASE("any bytes in names come back the same, whatever way a tar stores them") {
  const TempFolder folder;
  Names names = {"my cat.png",       "a\nb.png",    "-n.png",    "caf\xC3\xA9.png",
                 "cafe\xCC\x81.png", "bad\xFF.png", "a=b\t.png", "1 2=3.png"};
  for (std::string &name : names) name = "a/" + name;
  std::sort(names.begin(), names.end());
  const std::string long_name = "a/" + std::string(90, 'x') + "/" + std::string(150, 'y') + ".png";
  for (const char *way : {"header", "prefix", "gnu", "pax"}) {
    CAPTURE(way);
    std::string bytes;
    Names expected = names;
    if (std::string(way) == "gnu" || std::string(way) == "pax") expected.push_back(long_name);
    for (const std::string &name : expected) {
      TarHeader header;
      header.name = "cut off, or not";
      if (std::string(way) == "header") header.name = name;
      if (std::string(way) == "gnu") bytes += tar_extension('L', name + std::string(1, '\0'));
      if (std::string(way) == "pax")
        bytes += tar_extension('x', pax_record("mtime", "1.5") + pax_record("path", name));
      if (std::string(way) == "prefix") header.prefix = "a", header.name = name.substr(2);
      bytes += tar_member(header, name);
    }
    expected.push_back("b/1"); // with "a" alone, "a/xxx..." would be a class
    const Dataset dataset = open_bytes(folder, bytes + tar_member("b/1", "b/1") + tar_end());
    std::sort(expected.begin(), expected.end());
    CHECK(ids(dataset) == expected);
    CHECK(contents(dataset) == expected);
  }
  TarHeader old; // V7 and GNU have no prefix there
  old.name = "a/1.png";
  old.prefix = "12345";
  old.magic = std::string("ustar  \0", 8);
  CHECK(ids(open_bytes(folder, tar_member(old, "x") + tar_end())) == Names{"a/1.png"});
  old.magic = std::string(8, '\0');
  CHECK(ids(open_bytes(folder, tar_member(old, "x") + tar_end())) == Names{"a/1.png"});
}

TEST_CASE("names that lead out, and names that none can have") {
  refused(make_tar({{"a/../../x", "1"}}), "'..'");
  refused(make_tar({{"..", "1"}}), "'..'");
  refused(make_tar({{"", "1"}}), "without a name");
  refused(tar_extension('L', "a/" + std::string(5000, 'x')) + make_tar({{"x", "1"}}), "over 4096");
  refused(tar_extension('x', pax_record("path", std::string("a\0b", 3))) + make_tar({{"x", "1"}}), "NUL");
  refused(make_tar({{"a/1", "1"}, {"a/2", "2"}, {"./a//1", "3"}}), "'a/1' is in it twice");
}

TEST_CASE("links are the files they mean; what is no file is counted") {
  const TempFolder folder;
  const std::string bytes =
      tar_member("a/1", "one") + tar_link("b/hard", '1', "a/1") + tar_link("b/soft", '2', "../a/1") +
      tar_link("a/near", '2', "./1") + tar_link("a/chain", '2', "../b/soft") +
      tar_link("a/out", '2', "../../etc/passwd") + tar_link("a/absolute", '2', "/etc/passwd") +
      tar_link("a/nowhere", '2', "2") + tar_link("a/self", '2', "self") + tar_link("a/folder", '2', "../b") +
      tar_link("a/hardly", '1', "c") + tar_link("a/device", '3', "") + tar_link("a/pipe", '6', "") +
      tar_link("a/?", 'Z', "");
  const Dataset dataset = open_bytes(folder, bytes + tar_end());
  CHECK(ids(dataset) == Names{"a/1", "a/chain", "a/near", "b/hard", "b/soft"});
  for (const std::string &text : contents(dataset)) CHECK(text == "one");
  CHECK(noted(dataset, "9 member(s)"));
}

TEST_CASE("every packing gives the same; one that is cut off or damaged gives nothing") {
  const TempFolder folder;
  Members members;
  for (int i = 0; i < 5; ++i)
    members.push_back({"a/" + std::to_string(i), std::string(700, static_cast<char>('a' + i))});
  const std::string bytes = make_tar(members);
  const Names expected_ids = ids(open_bytes(folder, bytes)), expected = contents(open_bytes(folder, bytes));
  REQUIRE(expected.size() == 5);
  for (const char *filter : {"gzip", "xz", "zstd", "bzip2", "lz4", "lzip"}) {
    CAPTURE(filter);
    const std::string small = packed(bytes, filter);
    REQUIRE(small.size() < bytes.size());
    for (const char *format : {"tar", "auto"}) {
      const Dataset dataset = open_bytes(folder, small, format);
      CHECK(ids(dataset) == expected_ids);
      CHECK(contents(dataset) == expected);
    }
    for (std::size_t size = 0; size < small.size(); size += 7)
      CHECK_THROWS_AS(open_bytes(folder, small.substr(0, size)), FormatError);
  }
  const std::string gzip = packed(bytes, "gzip");
  CHECK(ids(open_bytes(folder, gzip + packed(make_tar({{"b/1", "x"}}), "gzip"))).size() == 6);
  CHECK(ids(open_bytes(folder, gzip + std::string(100, '\0'))).size() == 5);
  for (const std::size_t from_end : {1, 5, 8}) { // length, and checksum
    std::string damaged = gzip;
    damaged[damaged.size() - from_end] ^= 1;
    CHECK_THROWS_AS(open_bytes(folder, damaged), FormatError);
  }
  CHECK_THROWS_AS(open_bytes(folder, gzip + "x"), FormatError);
  CHECK_THROWS_AS(open_bytes(folder, packed("no tar", "gzip")), FormatError);
}

TEST_CASE("a tar that is cut anywhere is an error that says how much was seen") {
  const TempFolder folder;
  const std::string bytes =
      make_tar({{"a/1", "x"}, {"a/2", std::string(513, 'x')}, {"b/3", ""}, {"b/4", "x"}});
  for (std::size_t size = 0; size < bytes.size(); size += size % 64 ? 1 : 63) {
    CAPTURE(size);
    CHECK_THROWS_AS(open_bytes(folder, bytes.substr(0, size)), FormatError);
  }
  refused(bytes.substr(0, 1024), "two blocks of zeros that end an archive");
  refused(bytes.substr(0, 1024), "before that came 1 file(s)");
  refused(bytes.substr(0, 2560), "before that came 2 file(s)");
  refused(bytes.substr(0, 2000), "cut off inside a/2: 464 of 513 bytes are there");
  refused(bytes.substr(0, bytes.size() - 512), "two blocks of zeros");
  refused(bytes.substr(0, bytes.size() - 1), "cut off");
}

TEST_CASE("what follows the end: zeros, another archive, or something wrong") {
  const TempFolder folder;
  const std::string one = make_tar({{"a/1", "x"}}), two = make_tar({{"b/2", "y"}});
  CHECK(ids(open_bytes(folder, one + std::string(5000, '\0'))).size() == 1);
  const Dataset joined = open_bytes(folder, one + std::string(8192, '\0') + two);
  CHECK(ids(joined) == Names{"a/1", "b/2"});
  CHECK(contents(joined) == Names{"x", "y"});
  refused(one + two.substr(0, 1024), "two blocks of zeros");
  refused(one + std::string(512, 'x'), "what follows the archive's end");
  refused(one + "x", "archive's end");
  refused(tar_member("a/1", "x") + std::string(512, '\0') + two, "lone block of zeros");
}

TEST_CASE("what is no tar is named") {
  const std::string tar = make_tar({{"a/1", "x"}});
  refused("", "is empty");
  refused("Welcome to storage!\n" + tar, "begins with 'Welcome to storage!'");
  refused("PK\x03\x04 and so on", "zip");
  refused("7z\xBC\xAF\x27\x1C", "7z");
  refused("Rar!\x1A\x07", "rar");
  refused(tar.substr(1), "no tar");
  refused("\x89PNG\r\n", "begins with '\\x89PNG");
  std::string damaged = make_tar({{"a/1", "x"}, {"a/2", "y"}});
  damaged[1024 + 3] ^= 1;
  refused(damaged, "byte 1024: damaged");
}

TEST_CASE("sizes: any way to write one, and none is believed") {
  const TempFolder folder;
  const auto with_size = [](std::string raw) {
    TarHeader header;
    header.name = "a/1";
    header.raw_size = std::move(raw);
    return tar_block(header) + std::string(512, 'x') + tar_end();
  };
  std::string binary(12, '\0');
  binary[0] = '\x80';
  binary[11] = 5;
  for (const std::string &raw :
       {std::string("5"), std::string("       5 "), std::string("000000000005"), binary})
    CHECK(contents(open_bytes(folder, with_size(raw))) == Names{"xxxxx"});
  refused(with_size("77777777777"), "cut off inside a/1");
  refused(with_size("777777777777"), "cut off inside a/1");
  refused(with_size("\x80" + std::string(3, '\0') + "\x7F" + std::string(7, '\xFF')), "cut off inside a/1");
  refused(with_size(std::string(12, '\xFF')), "no number"); // -1
  refused(with_size("0x5"), "no number");
  const auto pax_size = [](const std::string &size) {
    return tar_extension('x', pax_record("size", size)) + tar_block({"a/1"}) + std::string(512, 'x') +
           tar_end();
  };
  CHECK(contents(open_bytes(folder, pax_size("7"))) == Names{"xxxxxxx"});
  refused(pax_size("9223372036854775807"), "pax");
  refused(pax_size("922337203685477580"), "cut off");
  refused(pax_size("-1"), "pax");
}

TEST_CASE("extended headers that are damaged, too large, or for nothing") {
  const TempFolder folder;
  const std::string member = tar_member("a/1", "x") + tar_end();
  for (const char *bad : {"nonsense", "5 a=b\n", "99 path=x\n", "11 path=xyz", "0 path=x\n", "-9 path=x\n",
                          "10 pathxyz\n", "99999999999999999999 a=b\n", "= \n", " \n"})
    refused(tar_extension('x', bad) + member, "pax header");
  TarHeader huge;
  huge.type = 'x';
  huge.size = std::int64_t{1} << 32;
  huge.name = "x";
  refused(tar_block(huge) + member, "more than any needs");
  refused(tar_extension('x', pax_record("path", "a/2")) + tar_end(), "damaged");
  refused(tar_extension('M', "x") + member, "several");
  CHECK(ids(open_bytes(folder, tar_extension('g', pax_record("comment", "c0ffee")) + member)) ==
        Names{"a/1"});
  CHECK(ids(open_bytes(folder, tar_extension('x', "") + member)) == Names{"a/1"});
  CHECK(ids(open_bytes(folder, tar_extension('x', std::string(99, '\0')) + member)) == Names{"a/1"});
  CHECK(ids(open_bytes(folder, tar_link("label", 'V', "") + member)) == Names{"a/1"});
}

TEST_CASE("members of no byte or too many are bad records, not bad tars") {
  const TempFolder folder;
  const Dataset dataset = open_bytes(folder, make_tar({{"a/1", ""}, {"a/2", "x"}}));
  CHECK_THROWS_WITH_AS(dataset.read(0), doctest::Contains("0 bytes"), DecodeError);
  CHECK(content(dataset, 1) == "x");
  TarHeader header;
  header.name = "a/1";
  header.size = (std::int64_t{1} << 30) + 512;
  const std::string path = folder.write("big.tar", tar_block(header));
  std::filesystem::resize_file(path, 512 + static_cast<std::uintmax_t>(header.size) + 1024); // holes
  CHECK_THROWS_WITH_AS(Dataset::open(path).read(0), doctest::Contains("more than a picture"), DecodeError);
}

TEST_CASE("members with holes are read whole") {
  const TempFolder folder;
  const std::string map = "2\n1024\n3\n4096\n2\n"; // offset and length of each part
  const std::string stored = map + tar_padding(map.size()) + "abcde";
  const auto member = [&](const std::string &content) {
    return tar_extension('x', pax_record("GNU.sparse.major", "1") + pax_record("GNU.sparse.minor", "0") +
                                  pax_record("GNU.sparse.name", "a/holes") +
                                  pax_record("GNU.sparse.realsize", "6000")) +
           tar_member("a/GNUSparseFile.1/holes", content);
  };
  std::string expected(6000, '\0');
  expected.replace(1024, 3, "abc").replace(4096, 2, "de");
  const Dataset dataset = open_bytes(folder, member(stored) + tar_member("a/2", "x") + tar_end());
  CHECK(ids(dataset) == Names{"a/2", "a/holes"});
  CHECK(content(dataset, 1) == expected);
  for (const char *bad : {"nonsense\n", "2\n1024\n3\n4096\n99999\n", "99999999999\n1\n", ""}) {
    const Dataset damaged = open_bytes(folder, member(bad) + tar_end());
    CHECK_THROWS_AS(damaged.read(0), DecodeError);
  }
}

TEST_CASE("many threads read one tar, from disk and from a temporary file") {
  const TempFolder folder;
  Members members;
  for (int i = 0; i < 200; ++i)
    members.push_back({"a/" + std::to_string(1000 + i), std::string(100 + i, 'x')});
  const std::string bytes = make_tar(members);
  for (const bool pack : {false, true}) {
    const Dataset dataset = open_bytes(folder, pack ? packed(bytes, "gzip") : bytes);
    LoaderOptions options;
    options.form = Form::encoded;
    options.threads = 4;
    Loader loader(dataset, record_order(dataset, true, 1), {}, options);
    std::size_t seen = 0;
    while (const auto batch = loader.next())
      for (std::size_t i = 0; i < batch->size(); ++i, ++seen)
        CHECK(batch->encoded[i].content.bytes() ==
              static_cast<std::size_t>(std::stoi(batch->ids[i].substr(2)) - 900));
    CHECK(seen == 200);
  }
}

TEST_CASE("a tar that shrinks under the reader, a full disk, a folder for temporary files that is none") {
  const TempFolder folder;
  const std::string bytes = make_tar({{"a/1", std::string(5000, 'x')}});
  const Dataset dataset = open_bytes(folder, bytes);
  std::filesystem::resize_file(folder.path("set.tar"), 1000);
  CHECK_THROWS_WITH_AS(dataset.read(0), doctest::Contains("became shorter"), Error);
  REQUIRE(setenv("TMPDIR", folder.path("missing").c_str(), 1) == 0);
  CHECK_THROWS_WITH_AS(open_bytes(folder, packed(bytes, "gzip")), doctest::Contains("TMPDIR"), SystemError);
  unsetenv("TMPDIR");
}

TEST_CASE("no change of any byte crashes, hangs or asks for the moon") {
  const TempFolder folder;
  const std::string bytes = tar_member("a/1", "one") + tar_extension('L', "a/" + std::string(120, 'l')) +
                            tar_member("x", "two") +
                            tar_extension('x', pax_record("path", "b/3") + pax_record("size", "5")) +
                            tar_member("y", "three") + tar_link("b/4", '2', "3") + tar_extension('K', "a/1") +
                            tar_link("b/5", '1', "short") + tar_member("b/6.cls", "1") + tar_end();
  std::uint64_t state = 1;
  const auto random = [&](std::size_t below) { // deterministic: xorshift
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<std::size_t>(state % below);
  };
  const auto fix_checksum = [](std::string &text, std::size_t block) {
    text.replace(block + 148, 8, 8, ' ');
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(text[block + i]);
    char octal[8];
    std::snprintf(octal, sizeof octal, "%06o", sum & 0777777);
    text.replace(block + 148, 7, octal, 7);
  };
  int opened = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = bytes;
    for (std::size_t change = 0; change <= random(4); ++change) {
      const std::size_t at = random(text.size());
      text[at] = static_cast<char>(random(3) ? random(256) : "0 /.=\n\xFF\x80"[random(8)]);
      if (random(4)) fix_checksum(text, at / 512 * 512);
    }
    try {
      const Dataset dataset = open_bytes(folder, text, round % 2 ? "tar" : "webdataset");
      ++opened;
      for (std::size_t i = 0; i < dataset.records().size(); ++i) dataset.read(i);
    } catch (const Error &) { // the only way to fail
    }
  }
  CHECK(opened > 100); // else it shows little
}
