// What a preprocessing makes of picture files, for the golden test: for each line "SETTINGS<TAB>FILE" on
// stdin one line "C H W" on stdout and then the f32 values as they lie in memory.
#include "cli/io.h"
#include "data/prepare.h"

#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

int main() {
  try {
    std::string line;
    while (std::getline(std::cin, line)) {
      const std::size_t tab = line.find('\t');
      const std::string bytes = tl::cli::read_file(line.substr(tab + 1), std::size_t{1} << 30);
      tl::data::Encoded record;
      record.is_file = true;
      record.content = tl::Tensor::empty(tl::DType::u8, {static_cast<std::int64_t>(bytes.size())});
      std::memcpy(record.content.data.get(), bytes.data(), bytes.size());
      tl::data::Preparer preparer(tl::data::parse_preprocess(line.substr(0, tab)));
      const tl::Tensor input = preparer.input(record);
      std::printf("%ld %ld %ld\n", input.shape[0], input.shape[1], input.shape[2]);
      std::fwrite(input.data.get(), 1, input.bytes(), stdout);
      std::fflush(stdout);
    }
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "tl-preprocess-dump: %s\n", error.what());
    return 1;
  }
}
