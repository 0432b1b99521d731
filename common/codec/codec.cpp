#include "codec/codec.h"

#include "cli/error.h"
#include "cli/log.h"

#include <algorithm>

namespace tl::codec {

namespace {
constexpr std::array<std::string_view, 4> kNumbers = {"fp32", "bf16", "int8", "u8"};
constexpr std::string_view kZstd = "+zstd";
} // namespace

std::string_view name_of(Number number) { return kNumbers[static_cast<std::size_t>(number)]; }

std::string name_of(Codec codec) {
  std::string name(name_of(codec.number));
  return codec.zstd ? name.append(kZstd) : name;
}

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (const Codec codec : kCodecs) names.push_back(name_of(codec));
  return names;
}

Number number_from_name(std::string_view name) {
  const auto *const found = std::find(kNumbers.begin(), kNumbers.end(), name);
  if (found == kNumbers.end())
    throw FormatError("unknown codec '" + cli::printable(std::string(name)) +
                      "'; was it written by newer tl-tools?");
  return static_cast<Number>(found - kNumbers.begin());
}

Codec codec_from_name(std::string_view name) {
  const bool zstd =
      name.size() > kZstd.size() && name.compare(name.size() - kZstd.size(), kZstd.size(), kZstd) == 0;
  return {number_from_name(zstd ? name.substr(0, name.size() - kZstd.size()) : name), zstd};
}

} // namespace tl::codec
