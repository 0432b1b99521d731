#include "shard/safetensors.h"

#include "cli/error.h"
#include "cli/io.h"
#include "support/clock.h"
#include "support/files.h"
#include "support/shards.h"

#include <doctest/doctest.h>

#include <fcntl.h>

using namespace tl;
using namespace tl::shard;
using namespace tl::test;

namespace {

std::string with_length(const std::string &header, const std::string &data = "") {
  std::string file(8, '\0');
  for (unsigned i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return file + header + data;
}

SafeTensors parse_tensors(const std::string &bytes) { return parse_safetensors(block_of(bytes), "x"); }

Tensor counting(DType dtype, Shape shape) {
  Tensor tensor = Tensor::empty(dtype, std::move(shape));
  for (std::size_t i = 0; i < tensor.bytes(); ++i) tensor.data.get()[i] = static_cast<std::byte>(i * 3 + 1);
  return tensor;
}

} // namespace

TEST_CASE("safetensors: every type and odd shapes come back as they were, aligned") {
  SafeTensors file;
  file.metadata = {{"note", "caf\xc3\xa9 \"quoted\" \n"}, {"", "empty key"}};
  const DType types[] = {DType::u8,  DType::f32, DType::i16, DType::f64,  DType::boolean,
                         DType::f16, DType::i64, DType::i8,  DType::bf16, DType::i32};
  for (const DType type : types)
    file.tensors.push_back({std::string(name_of(type)), counting(type, {3, 1, 7})});
  file.tensors.push_back({"scalar", counting(DType::f32, {})});
  file.tensors.push_back({"empty", counting(DType::i64, {0, 5})});
  std::string bytes;
  write_safetensors(file, string_sink(bytes));

  TempFolder folder;
  const SafeTensors back = read_safetensors(folder.write("a.safetensors", bytes));
  CHECK(back.metadata == file.metadata);
  CHECK(back.tensors.size() == file.tensors.size());
  for (const NamedTensor &named : file.tensors) {
    const Tensor *tensor = back.find(named.name);
    REQUIRE(tensor);
    CHECK(same_bytes(*tensor, named.tensor));
    CHECK(reinterpret_cast<std::uintptr_t>(tensor->data.get()) % size_of(tensor->dtype) == 0);
  }
  CHECK(back.find("absent") == nullptr);
}

TEST_CASE("safetensors: tensors outlive the file they are mapped from, and writing changes only memory") {
  TempFolder folder;
  SafeTensors file;
  file.tensors.push_back({"a", counting(DType::i32, {1000})});
  std::string bytes;
  write_safetensors(file, string_sink(bytes));
  const std::string path = folder.write("a.safetensors", bytes);
  Tensor kept = *read_safetensors(path).find("a");
  kept.as<std::int32_t>()[3] = 77;
  CHECK(cli::read_file(path, 1 << 20) == bytes);
  std::filesystem::remove(path);
  CHECK(kept.as<std::int32_t>()[3] == 77);
  CHECK(kept.as<std::int32_t>()[999] == file.tensors[0].tensor.as<std::int32_t>()[999]);
}

TEST_CASE("safetensors: foreign files without metadata, with unaligned data, in any header order") {
  const std::string header = R"({"b":{"dtype":"I32","shape":[2],"data_offsets":[3,11]},)"
                             R"("a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
  const SafeTensors file =
      parse_tensors(with_length(header, std::string("\x01\x02\x03\x05\0\0\0\xff\xff\xff\xff", 11)));
  CHECK(file.metadata.empty());
  CHECK(file.tensors[0].name == "a");
  CHECK(file.find("b")->as<std::int32_t>()[0] == 5);
  CHECK(file.find("b")->as<std::int32_t>()[1] == -1);
}

TEST_CASE("safetensors: a header that lies is refused before it is believed") {
  struct Case {
    std::string file, message;
  };
  const auto tensor = [](const std::string &dtype, const std::string &shape, const std::string &offsets) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  const auto two = [](const std::string &first, const std::string &second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  std::string deep(200, '[');
  const Case cases[] = {
      {"", "0 bytes"},
      {"1234567", "7 bytes"},
      {std::string(8, '\0'), "no JSON header"},
      {"PK\x03\x04 and so on, a zip file", "no JSON header"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10), "over the limit"},
      {std::string("\x40\0\0\0\0\0\0\0{}", 10), "cut off"},
      {with_length("{"), "not JSON"},
      {with_length("{}}"), "not JSON"},
      {with_length(R"({"a":)" + deep), "nested deeper"},
      {with_length("{\"\xff\":1}"), "not JSON"},
      {with_length(R"({"a":1})"), "dtype, shape and data_offsets"},
      {with_length(R"({"a":{"dtype":"U8","shape":[]}})"), "dtype, shape and data_offsets"},
      {with_length(tensor("U8", "[4]", "[0,4]") + " ", "1234") + "5", "belong to none"},
      {with_length(tensor("U8", "[4]", "[0,4]"), "123"), "outside"},
      {with_length(tensor("U8", "[4]", "[4,0]"), "1234"), "outside"},
      {with_length(tensor("U8", "[3]", "[0,4]"), "1234"), "does not fill"},
      {with_length(tensor("U8", "[-4]", "[0,4]"), "1234"), "impossible size"},
      {with_length(tensor("U8", "[4.0]", "[0,4]"), "1234"), "impossible size"},
      {with_length(tensor("U8", "[18446744073709551615]", "[0,4]"), "1234"), "impossible size"},
      {with_length(tensor("F64", "[4294967296,2147483648]", "[0,0]")), "impossible shape"},
      {with_length(tensor("F64", "[2305843009213693952]", "[0,0]")), "does not fill"},
      {with_length(
           tensor("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"),
           "1234"),
       "at most 32"},
      {with_length(tensor("U8", "4", "[0,4]"), "1234"), "shape must be a list"},
      {with_length(tensor("U8", "[4]", "[0]"), "1234"), "two whole numbers"},
      {with_length(tensor("U8", "[4]", "[-1,4]"), "1234"), "two whole numbers"},
      {with_length(tensor("U8", "[4]", "\"ab\""), "1234"), "two whole numbers"},
      {with_length(tensor("U16", "[2]", "[0,4]"), "1234"), "not supported"},
      {with_length(tensor("f32", "[1]", "[0,4]"), "1234"), "not supported"},
      {with_length(two("[0,4]", "[2,6]"), "123456"), "begins at byte 2"},
      {with_length(two("[0,4]", "[5,9]"), "123456789"), "begins at byte 5"},
      {with_length(two("[1,5]", "[5,9]"), "123456789"), "begins at byte 1"},
      {with_length(two("[0,4]", "[0,4]"), "1234"), "begins at byte 0"},
      {with_length(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                   R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
       "twice"},
      {with_length(R"({"__metadata__":{"k":1}})"), "not a string"},
      {with_length(R"({"__metadata__":[]})"), "not an object"},
  };
  for (const Case &item : cases) {
    const std::string message = message_of<FormatError>([&] { parse_tensors(item.file); });
    CHECK_MESSAGE(message.find(item.message) != std::string::npos, message,
                  " should tell of: ", item.message);
    CHECK(message.rfind("x:", 0) == 0);
  }
}

TEST_CASE("safetensors: a header of very many tensors is read in linear time, and bounded") {
  std::string header = "{";
  for (int i = 0; i < 50000; ++i)
    header += (i ? ",\"" : "\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const std::string bytes = with_length(header + "}");
  const std::clock_t start = std::clock(); // not wall time: the machine may be busy
  CHECK(parse_tensors(bytes).tensors.size() == 50000);
  CHECK(cpu_seconds(start) < 5);
  CHECK_THROWS_AS(parse_safetensors(block_of(bytes), "x", {1 << 20, 1 << 20}), FormatError);
  CHECK_THROWS_AS(parse_safetensors(block_of(bytes), "x", {16 << 20, 49999}), FormatError);
}

TEST_CASE("safetensors: what cannot be written is refused, not written wrongly") {
  std::string out;
  const auto write = [&](SafeTensors file) { write_safetensors(file, string_sink(out)); };
  const Tensor one = counting(DType::u8, {1});
  CHECK_THROWS_AS(write({{{"a", one}, {"a", one}}, {}}), Error);
  CHECK_THROWS_AS(write({{{"\xff", one}}, {}}), Error);
  CHECK_THROWS_AS(write({{{"__metadata__", one}}, {}}), Error);
  CHECK_THROWS_AS(write({{}, {{"k", "\xff"}}}), Error);
  CHECK(out.empty());
  const cli::Descriptor full(::open("/dev/full", O_WRONLY));
  const SafeTensors file{{{"a", one}}, {}};
  const std::string message =
      message_of<SystemError>([&] { write_safetensors(file, descriptor_sink(full.get(), "full")); });
  CHECK(message.find("No space left") != std::string::npos);
}

TEST_CASE("map_file: folders, missing files and pipes are errors with the name; an empty file is none") {
  TempFolder folder;
  CHECK(message_of([&] { map_file(folder.path()); }).find(folder.path()) == 0);
  CHECK(message_of([&] { map_file(folder.path("absent")); }).find("absent") != std::string::npos);
  CHECK_THROWS_AS(map_file("/dev/null"), Error);
  CHECK(map_file(folder.write("empty", "")).size == 0);
  CHECK_THROWS_AS(read_safetensors(folder.path("empty")), FormatError);
}
