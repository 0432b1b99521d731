#include "cli/error.h"
#include "data/source.h"
#include "shard/safetensors.h"
#include "support/datasets.h"
#include "support/files.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>

using namespace tl;
using namespace tl::data;
using namespace tl::test;

namespace {

std::string idx(const Shape &shape, const std::string &values) {
  std::string bytes{0, 0, 8, static_cast<char>(shape.size())};
  for (const std::int64_t size : shape)
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 255);
  return bytes + values;
}

std::string gzip(const std::string &text) {
  z_stream stream = {};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef *>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// Feeds `text` to stdin while `body` runs.
template <class Body> void with_stdin(const TempFolder &folder, const std::string &text, Body body) {
  const std::string path = folder.write(".stdin", text);
  const int saved = dup(STDIN_FILENO);
  FILE *file = std::fopen(path.c_str(), "rb");
  dup2(fileno(file), STDIN_FILENO);
  body();
  dup2(saved, STDIN_FILENO);
  std::fclose(file);
  close(saved);
}

} // namespace

TEST_CASE("a folder of classes: bytewise order, nested files, junk kept for the decoder") {
  const TempFolder folder;
  for (const char *name :
       {"b/2.png", "b/10.png", "b/1.png", "a/z/3.jpg", "a/B.jpg", "a/a.jpg", "a/readme.txt", "10/x", "9/x"})
    folder.write(name, name);
  const Dataset dataset = Dataset::open(folder.path());
  CHECK(dataset.content() == Content::files);
  CHECK(dataset.classes() == Names{"10", "9", "a", "b"});
  CHECK(ids(dataset) == Names{"10/x", "9/x", "a/B.jpg", "a/a.jpg", "a/readme.txt", "a/z/3.jpg", "b/1.png",
                              "b/10.png", "b/2.png"});
  CHECK(labels(dataset) == Labels{0, 1, 2, 2, 2, 2, 3, 3, 3});
  const Encoded record = dataset.read(5);
  CHECK(record.is_file);
  CHECK(std::string(record.content.as<char>(), record.content.bytes()) == "a/z/3.jpg");
  CHECK(record.hash == hash_text("a/z/3.jpg"));
}

TEST_CASE("hidden names are no class and no record, and are counted") {
  const TempFolder folder;
  for (const char *name : {"a/1.png", "b/1.png", ".ipynb_checkpoints/1-checkpoint.png", ".DS_Store",
                           "a/._1.png", "b/.git/config"})
    folder.write(name, "x");
  const Dataset dataset = Dataset::open(folder.path());
  CHECK(dataset.classes() == Names{"a", "b"});
  CHECK(labels(dataset) == Labels{0, 1});
  CHECK(dataset.hidden() == 4);
  CHECK(noted(dataset, "4 hidden"));
}

TEST_CASE("a flat folder is unlabelled; files beside class folders and empty classes are noted") {
  const TempFolder folder;
  CHECK(Dataset::open(folder.path()).records().empty());
  folder.write("2.png", "x");
  folder.write("1.png", "y");
  const Dataset flat = Dataset::open(folder.path());
  CHECK(ids(flat) == Names{"1.png", "2.png"});
  CHECK(labels(flat) == Labels{-1, -1});
  CHECK(flat.classes().empty());
  folder.write("a/3.png", "z");
  std::filesystem::create_directory(folder.path("empty"));
  const Dataset mixed = Dataset::open(folder.path());
  CHECK(ids(mixed) == Names{"a/3.png"});
  CHECK(noted(mixed, "2 file(s) beside"));
  CHECK(noted(mixed, "class 'empty' has no file"));
}

TEST_CASE("links, pipes and loops") {
  const TempFolder folder;
  folder.write("store/1.png", "x");
  std::filesystem::create_directory(folder.path("data"));
  std::filesystem::create_directory_symlink(folder.path("store"), folder.path("data/a"));
  std::filesystem::create_directory(folder.path("data/b"));
  std::filesystem::create_symlink(folder.path("store/1.png"), folder.path("data/b/link.png"));
  std::filesystem::create_symlink(folder.path("nowhere"), folder.path("data/b/dangling.png"));
  REQUIRE(mkfifo(folder.path("data/b/pipe.png").c_str(), 0600) == 0);
  const Dataset dataset = Dataset::open(folder.path("data"));
  CHECK(ids(dataset) == Names{"a/1.png", "b/link.png"});
  CHECK(noted(dataset, "2 name(s) that are no regular files"));
  std::filesystem::create_directory_symlink(folder.path("data"), folder.path("data/b/again"));
  CHECK_THROWS_WITH_AS(Dataset::open(folder.path("data")), doctest::Contains("leads back"), Error);
}

TEST_CASE("any bytes in names come back the same, by folder and by every kind of list") {
  const TempFolder folder;
  const Names names = {"c/-n.png",     "c/a\nb.png",      "c/caf\xc3\xa9.png", "c/cafe\xcc\x81.png",
                       "c/my cat.png", "c/quote\"s,.png", "c/tab\there.png",   "c/\xff\xfe.png"};
  for (const std::string &name : names) folder.write(name, name);
  Names sorted = names;
  std::sort(sorted.begin(), sorted.end());
  const auto check = [&](const Dataset &dataset) {
    Names found = ids(dataset);
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(dataset.read(i).hash == hash_text(found[i]));
    std::sort(found.begin(), found.end());
    CHECK(found == sorted);
  };
  check(Dataset::open(folder.path()));

  std::string nul, csv = "path,label\r\n";
  for (const std::string &name : names) {
    nul += "./" + name + "\tcat" + std::string(1, '\0');
    std::string quoted;
    for (const char c : name) quoted += c == '"' ? "\"\"" : std::string(1, c);
    csv += "\"" + quoted + "\",dog\r\n";
  }
  const Dataset from_nul = Dataset::open(folder.write("all.list", nul));
  check(from_nul);
  CHECK(from_nul.classes() == Names{"cat"});
  check(Dataset::open(folder.write("all.csv", csv)));

  // `find -print0`: no labels; a name with a TAB needs one.
  std::string plain;
  for (const std::string &name : names)
    if (name.find('\t') == std::string::npos) plain += folder.path(name) + std::string(1, '\0');
  with_stdin(folder, plain, [&] {
    const Dataset dataset = Dataset::open("-");
    CHECK(dataset.records().size() == names.size() - 1);
    CHECK(dataset.read(0).hash == hash_text(names[0]));
    CHECK(dataset.records()[0].label == -1);
  });
}

TEST_CASE("CSV: header, quotes, CRLF, byte order mark, further columns, missing labels") {
  const TempFolder folder;
  const auto open = [&](const std::string &text) { return Dataset::open(folder.write("m.csv", text)); };
  for (const char *text : {"path,label\nx.png,b\ny.png,a\n", "path,label\r\nx.png,b\r\ny.png,a\r\n",
                           "\xef\xbb\xbfpath,label\nx.png,b\n\ny.png,a", "label,path\nb,x.png\na,y.png\n",
                           "id,path,split,label\n1,x.png,train,b\n2,\"y.png\",val,\"a\"\n"}) {
    CAPTURE(text);
    const Dataset dataset = open(text);
    CHECK(ids(dataset) == Names{"x.png", "y.png"});
    CHECK(dataset.classes() == Names{"a", "b"});
    CHECK(labels(dataset) == Labels{1, 0});
  }
  const Dataset partly = open("path,label\nx.png,\ny.png,a\n");
  CHECK(labels(partly) == Labels{-1, 0});
  CHECK(noted(partly, "1 record(s) without a label"));
  CHECK(open("path\nx.png\n").classes().empty());
  CHECK(open("").records().empty());
  CHECK(open("path,label\n").records().empty());
  struct Bad {
    const char *text, *part;
  };
  for (const Bad &bad :
       {Bad{"file,label\nx,a\n", ":1: no column 'path'"}, Bad{"path,label\nx,a\ny\n", ":3: 1 fields"},
        Bad{"path,label\n\"x\ny,a\n", ":2: a quote"}, Bad{"path,label\n\"x\"y,a\n", ":2: text after"},
        Bad{"path,label\n,a\n", ":2: empty path"}, Bad{"path,label\nx,a\nx,b\n", "twice"},
        Bad{"path,label\nx,a\n./x,a\n", "twice"}}) {
    CAPTURE(bad.text);
    CHECK_THROWS_WITH_AS(open(bad.text), doctest::Contains(bad.part), FormatError);
  }
}

TEST_CASE("lists: newline, CRLF, NUL, mixed and cut ones") {
  const TempFolder folder;
  const auto open = [&](const std::string &text) { return Dataset::open(folder.write("l.txt", text)); };
  CHECK(ids(open("b.png\na.png\n")) == Names{"b.png", "a.png"}); // as listed
  CHECK(ids(open("b.png\r\na.png\r\n")) == Names{"b.png", "a.png"});
  CHECK(ids(open("b.png\na.png")) == Names{"b.png", "a.png"});
  CHECK(labels(open("b.png\tdog\na.png\tcat\n")) == Labels{1, 0});
  CHECK_THROWS_WITH_AS(open("b.png\tdog\na.png\n"), doctest::Contains("entry 2"), FormatError);
  CHECK_THROWS_WITH_AS(open("b.png\t\n"), doctest::Contains("empty"), FormatError);
  CHECK_THROWS_WITH_AS(open(std::string("a\0b", 3)), doctest::Contains("cut off"), FormatError);
  CHECK_THROWS_WITH_AS(open("a\na\n"), doctest::Contains("twice"), FormatError);
  folder.write("sub/l.txt", "../x.png\n");
  folder.write("x.png", "content");
  CHECK(Dataset::open(folder.path("sub/l.txt")).read(0).hash == hash_text("content"));
}

TEST_CASE("a record that cannot be read says why") {
  const TempFolder folder;
  folder.write("empty.png", "");
  REQUIRE(mkfifo(folder.path("pipe.png").c_str(), 0600) == 0);
  std::filesystem::create_directory(folder.path("dir.png"));
  folder.write("huge.png", "x");
  std::filesystem::resize_file(folder.path("huge.png"), std::uintmax_t{1} << 31); // sparse
  const Dataset dataset = Dataset::open(
      folder.write("l.txt", "empty.png\npipe.png\ndir.png\nhuge.png\nmissing.png\n/dev/zero\n"));
  const char *reasons[] = {
      "0 bytes",      "not a regular file", "not a regular file", "more than a picture may have",
      "No such file", "not a regular file"};
  for (std::size_t i = 0; i < 6; ++i)
    CHECK_THROWS_WITH_AS(dataset.read(i), doctest::Contains(reasons[i]), DecodeError);
}

TEST_CASE("IDX: plain and gzip, labels beside, splits of a folder") {
  const TempFolder folder;
  std::string pixels;
  for (int i = 0; i < 5 * 6; ++i) pixels += static_cast<char>(i);
  const std::string images = idx({5, 2, 3}, pixels), numbers = idx({5}, std::string("\x01\0\x02\x01\0", 5));
  folder.write("train-images-idx3-ubyte", images);
  folder.write("train-labels-idx1-ubyte", numbers);
  folder.write("t10k-images-idx3-ubyte.gz", gzip(images));
  folder.write("t10k-labels-idx1-ubyte.gz", gzip(numbers));
  SourceOptions options;
  for (const char *split : {"train", "t10k", "test"}) {
    options.split = split;
    const Dataset dataset = Dataset::open(folder.path(), options);
    CHECK(dataset.content() == Content::rows);
    CHECK(dataset.row_shape() == Shape{2, 3});
    CHECK(dataset.row_dtype() == DType::u8);
    CHECK(labels(dataset) == Labels{1, 0, 2, 1, 0});
    CHECK(dataset.classes() == Names{"0", "1", "2"});
    CHECK(dataset.records()[4].id == (options.split == "train" ? "train/4" : "t10k/4"));
    const Encoded record = dataset.read(4);
    CHECK_FALSE(record.is_file);
    CHECK(record.content.shape == Shape{2, 3});
    CHECK(!std::memcmp(record.content.data.get(), pixels.data() + 24, 6));
    CHECK(record.hash == hash_bytes(pixels.data() + 24, 6));
  }
  CHECK_THROWS_WITH_AS(Dataset::open(folder.path()), doctest::Contains("choose a split: t10k, train"),
                       UsageError);
  options.split = "val";
  CHECK_THROWS_WITH_AS(Dataset::open(folder.path(), options), doctest::Contains("t10k, train"), UsageError);
  CHECK(labels(Dataset::open(folder.path("train-images-idx3-ubyte"))) == Labels{1, 0, 2, 1, 0});
  CHECK_THROWS_WITH_AS(Dataset::open(folder.path("train-labels-idx1-ubyte")),
                       doctest::Contains("holds labels"), FormatError);
  folder.write("kaggle/train-images.idx3-ubyte", images);
  const Dataset bare = Dataset::open(folder.path("kaggle"));
  CHECK(labels(bare) == Labels{-1, -1, -1, -1, -1});
  CHECK(noted(bare, "no labels file"));
  folder.write("kaggle/train-labels.idx1-ubyte", numbers);
  CHECK(Dataset::open(folder.path("kaggle")).classes().size() == 3);
}

TEST_CASE("IDX files that are cut, too long or lie about their size") {
  const TempFolder folder;
  const std::string good = idx({4, 2, 2}, std::string(16, 'x'));
  const auto open = [&](const std::string &bytes, const std::string &suffix = "") {
    folder.write("a-images-idx3-ubyte" + suffix, bytes);
    return Dataset::open(folder.path("a-images-idx3-ubyte" + suffix));
  };
  CHECK(open(good).records().size() == 4);
  CHECK(open(gzip(good), ".gz").records().size() == 4);
  for (std::size_t size = 0; size < good.size(); ++size)
    CHECK_THROWS_AS(open(good.substr(0, size)), FormatError);
  CHECK_THROWS_AS(open(good + "x"), FormatError);
  const std::string packed = gzip(good);
  for (std::size_t size = 3; size < packed.size(); ++size)
    CHECK_THROWS_AS(open(packed.substr(0, size), ".gz"), FormatError);
  CHECK_THROWS_AS(open(gzip(good + "x"), ".gz"), FormatError);
  std::string damaged = packed;
  damaged[packed.size() - 6] = static_cast<char>(damaged[packed.size() - 6] ^ 1); // the checksum
  CHECK_THROWS_AS(open(damaged, ".gz"), FormatError);
  for (const Shape &shape :
       {Shape{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, Shape{1 << 30, 1, 1}, Shape{4, 2, 3}, Shape{4, 0, 2}}) {
    CHECK_THROWS_AS(open(idx(shape, std::string(16, 'x'))), FormatError);
    CHECK_THROWS_AS(open(gzip(idx(shape, std::string(16, 'x'))), ".gz"), FormatError);
  }
  std::string floats = good;
  floats[2] = 0x0D;
  CHECK_THROWS_WITH_AS(open(floats), doctest::Contains("unsigned bytes"), FormatError);
  open(good);
  folder.write("a-labels-idx1-ubyte", idx({3}, "abc"));
  CHECK_THROWS_WITH_AS(open(good), doctest::Contains("3 labels for 4"), FormatError);
}

TEST_CASE("safetensors: pictures, features and tokens, with labels and class names") {
  const TempFolder folder;
  const auto save = [&](std::vector<shard::NamedTensor> tensors,
                        std::map<std::string, std::string> metadata = {}) {
    std::string bytes;
    shard::write_safetensors({std::move(tensors), std::move(metadata)}, shard::string_sink(bytes));
    return folder.write("set.safetensors", bytes);
  };
  Tensor images = Tensor::empty(DType::u8, {3, 3, 2, 2}), numbers = Tensor::empty(DType::i64, {3});
  for (int i = 0; i < 36; ++i) images.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  for (int i = 0; i < 3; ++i) numbers.as<std::int64_t>()[i] = 2 - i;
  {
    const Dataset dataset = Dataset::open(
        save({{"images", images}, {"labels", numbers}}, {{"classes", R"(["cat","dog","eel"])"}}));
    CHECK(ids(dataset) == Names{"set/0", "set/1", "set/2"});
    CHECK(labels(dataset) == Labels{2, 1, 0});
    CHECK(dataset.classes() == Names{"cat", "dog", "eel"});
    CHECK(dataset.row_shape() == Shape{3, 2, 2});
    CHECK(dataset.read(2).content.as<std::uint8_t>()[11] == 35);
    CHECK(dataset.read(1).hash == hash_bytes(images.data.get() + 12, 12));
  }
  CHECK(Dataset::open(save({{"images", images}})).classes().empty());
  Tensor tokens = Tensor::empty(DType::i64, {3, 4});
  std::memset(tokens.data.get(), 0, tokens.bytes());
  CHECK(Dataset::open(save({{"tokens", tokens}, {"labels", numbers}})).content() == Content::tokens);
  CHECK_THROWS_WITH_AS(Dataset::open(save({{"tokens", tokens}, {"images", images}})),
                       doctest::Contains("both"), FormatError);
  CHECK_THROWS_WITH_AS(Dataset::open(save({{"labels", numbers}})), doctest::Contains("none of"), FormatError);
  CHECK_THROWS_AS(Dataset::open(save({{"input", numbers}})), FormatError);
  CHECK_THROWS_AS(Dataset::open(save({{"images", images}, {"labels", tokens}})), FormatError);
  CHECK_THROWS_AS(Dataset::open(save({{"images", images}, {"labels", numbers}}, {{"classes", "[\"one\"]"}})),
                  FormatError);
  numbers.as<std::int64_t>()[0] = -1;
  CHECK_THROWS_WITH_AS(Dataset::open(save({{"images", images}, {"labels", numbers}})),
                       doctest::Contains("label -1"), FormatError);
  CHECK_THROWS_AS(Dataset::open(folder.write("bad.safetensors", "not one")), FormatError);
}

TEST_CASE("classes chosen and renumbered, in the order asked for") {
  const TempFolder folder;
  for (int c = 0; c < 8; ++c)
    for (int i = 0; i < 3; ++i)
      folder.write(std::to_string(c) + "/" + std::to_string(i), std::to_string(c * 10 + i));
  folder.write("5-7/odd", "x");
  SourceOptions options;
  options.classes = {"2-4", "0"};
  const Dataset dataset = Dataset::open(folder.path(), options);
  CHECK(dataset.classes() == Names{"2", "3", "4", "0"});
  CHECK(dataset.records().size() == 12);
  for (const Record &record : dataset.records())
    CHECK(dataset.classes()[static_cast<std::size_t>(record.label)] == record.id.substr(0, 1));
  CHECK(dataset.records().front().id == "0/0"); // the listing order stays
  options.classes = {"5-7"};                    // a class of that name goes first
  CHECK(ids(Dataset::open(folder.path(), options)) == Names{"5-7/odd"});
  for (const std::vector<std::string> &bad :
       {Names{"9"}, Names{"6-9"}, Names{"1", "1"}, Names{"1", "0-2"}, Names{"4-2"}, Names{"0-999999999"}}) {
    options.classes = bad;
    CHECK_THROWS_AS(Dataset::open(folder.path(), options), UsageError);
  }
  const TempFolder flat;
  flat.write("x", "x");
  options.classes = {"1"};
  CHECK_THROWS_WITH_AS(Dataset::open(flat.path(), options), doctest::Contains("no labels"), UsageError);
}

TEST_CASE("a limit takes some of each class, the same ones every time, more of them when it grows") {
  const TempFolder folder;
  for (const char *c : {"a", "b"})
    for (int i = 0; i < 20; ++i)
      folder.write(std::string(c) + "/" + std::to_string(100 + i), "x" + std::to_string(i));
  folder.write("c/only", "x");
  SourceOptions options;
  Names before;
  for (const std::int64_t limit : {1, 5, 12, 20, 99}) {
    options.limit = limit;
    const Dataset dataset = Dataset::open(folder.path(), options);
    const Names now = ids(dataset);
    CHECK(now == ids(Dataset::open(folder.path(), options)));
    CHECK(std::is_sorted(now.begin(), now.end()));
    std::map<std::int64_t, std::int64_t> count;
    for (const Record &record : dataset.records()) ++count[record.label];
    CHECK(count[0] == std::min<std::int64_t>(limit, 20));
    CHECK(count[1] == std::min<std::int64_t>(limit, 20));
    CHECK(count[2] == 1);
    CHECK(std::includes(now.begin(), now.end(), before.begin(), before.end()));
    before = now;
  }
  options.limit = 5;
  const Names first = ids(Dataset::open(folder.path(), options));
  CHECK(first != Names(before.begin(), before.begin() + 11)); // spread, not the first five
  options.seed = 1;
  CHECK(ids(Dataset::open(folder.path(), options)) != first);
  options.limit = -1;
  CHECK_THROWS_AS(Dataset::open(folder.path(), options), UsageError);
}

TEST_CASE("orders: as listed, or shuffled by seed and name alone") {
  const TempFolder folder;
  for (int i = 0; i < 30; ++i) folder.write("a/" + std::to_string(100 + i), "x");
  const Dataset dataset = Dataset::open(folder.path());
  const auto listed = record_order(dataset, false, 7);
  CHECK(std::is_sorted(listed.begin(), listed.end()));
  const auto shuffled = record_order(dataset, true, 7);
  CHECK(shuffled != listed);
  CHECK(shuffled == record_order(dataset, true, 7));
  CHECK(shuffled != record_order(dataset, true, 8));
  CHECK(std::is_permutation(shuffled.begin(), shuffled.end(), listed.begin()));
  // A grown dataset keeps the relative order of what was there.
  folder.write("a/999", "x");
  const Dataset grown = Dataset::open(folder.path());
  Names before, after;
  for (const auto i : shuffled) before.push_back(dataset.records()[i].id);
  for (const auto i : record_order(grown, true, 7))
    if (grown.records()[i].id != "a/999") after.push_back(grown.records()[i].id);
  CHECK(before == after);
}

TEST_CASE("a record is its content: relabelled and renamed it is the same, with other bytes it is not") {
  const TempFolder folder;
  for (const char *name : {"a/1", "a/2", "a/3", "b/4"}) folder.write(name, std::string("pixels of ") + name);
  std::map<std::string, Digest> before;
  const auto hashes = [&] {
    std::map<std::string, Digest> all;
    const Dataset dataset = Dataset::open(folder.path());
    for (std::size_t i = 0; i < dataset.records().size(); ++i)
      all[dataset.records()[i].id] = dataset.read(i).hash;
    return all;
  };
  before = hashes();
  std::filesystem::rename(folder.path("a/1"), folder.path("b/1")); // another label
  std::filesystem::rename(folder.path("a/2"), folder.path("a/renamed"));
  const auto time = std::filesystem::last_write_time(folder.path("a/3"));
  folder.write("a/3", "PIXELS of a/3"); // same size, same time
  std::filesystem::last_write_time(folder.path("a/3"), time);
  const auto after = hashes();
  CHECK(after.at("b/1") == before.at("a/1"));
  CHECK(after.at("a/renamed") == before.at("a/2"));
  CHECK(after.at("a/3") != before.at("a/3"));
  CHECK(after.at("b/4") == before.at("b/4"));
  CHECK(after.size() == 4);
}

TEST_CASE("what cannot be opened") {
  const TempFolder folder;
  folder.write("a/1", "x");
  SourceOptions options;
  CHECK_THROWS_WITH_AS(Dataset::open(folder.path("missing")), doctest::Contains("No such file"), Error);
  options.format = "zip";
  CHECK_THROWS_AS(Dataset::open(folder.path(), options), UsageError);
  options.format = "csv";
  CHECK_THROWS_AS(Dataset::open(folder.path(), options), UsageError);
  options.format = "idx";
  CHECK_THROWS_AS(Dataset::open(folder.path(), options), Error);
  options = {};
  options.split = "val";
  CHECK_THROWS_WITH_AS(Dataset::open(folder.path(), options), doctest::Contains("val"), UsageError);
  options.split = "a";
  CHECK(ids(Dataset::open(folder.path(), options)) == Names{"1"});
  options.split = "";
  options.format = "folder";
  CHECK_THROWS_AS(Dataset::open(folder.path("a/1"), options), UsageError);
}
