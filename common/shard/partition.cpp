#include "shard/partition.h"

#include "cli/error.h"
#include "cli/log.h"

#include <charconv>

namespace tl::shard {

namespace {

constexpr std::uint64_t kSeed = 0x7061727469746e; // not the one that anything else is ordered by
constexpr std::string_view kOf = "-of-";

std::optional<Partition> parsed(std::string_view text, std::string_view between) {
  const std::size_t at = text.find(between);
  if (at == std::string_view::npos) return std::nullopt;
  const auto number = [](std::string_view digits) -> std::int64_t {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? value : 0;
  };
  const Partition part{number(text.substr(0, at)), number(text.substr(at + between.size()))};
  if (part.index < 1 || part.index > part.count || part.count > kMaxParts) return std::nullopt;
  return part;
}

} // namespace

bool Partition::holds(const std::string &id) const {
  return static_cast<std::int64_t>(mix(kSeed, hash_text(id)) % static_cast<std::uint64_t>(count)) ==
         index - 1;
}

std::string Partition::text() const { return std::to_string(index) + "/" + std::to_string(count); }
std::string Partition::name() const {
  return std::to_string(index) + std::string(kOf) + std::to_string(count);
}

Partition parse_partition(const std::string &text) {
  if (const std::optional<Partition> part = parsed(text, "/")) return *part;
  throw UsageError("'" + cli::printable(text) +
                   "' is no part of a data set; the second of four is 2/4 (at most " +
                   std::to_string(kMaxParts) + " parts)");
}

std::optional<Partition> partition_from_name(std::string_view name) {
  const std::optional<Partition> part = parsed(name, kOf);
  return part && part->name() == name ? part : std::nullopt;
}

} // namespace tl::shard
