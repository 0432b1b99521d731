#include "plan/link.h"

#include "cli/error.h"

#include <charconv>
#include <cmath>
#include <filesystem>

namespace tl::plan {

namespace {

constexpr const char *kForm = "want for example 100Mbit/s, 12.5MB/s or 1Gbit/s,5ms";

/// Takes a positive number off the front of `text`; independent of the locale.
std::optional<double> take_number(std::string_view &text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view &text, std::string_view word) {
  if (text.substr(0, word.size()) != word) return false;
  text.remove_prefix(word.size());
  return true;
}

double take_prefix(std::string_view &text) {
  if (take(text, "k") || take(text, "K")) return 1e3;
  if (take(text, "M")) return 1e6;
  if (take(text, "G")) return 1e9;
  return take(text, "T") ? 1e12 : 1;
}

std::optional<double> take_rate(std::string_view &text) {
  const std::optional<double> number = take_number(text);
  if (!number) return std::nullopt;
  const double scale = take_prefix(text);
  if (take(text, "bit/s") || take(text, "bps")) return *number * scale / 8;
  if (take(text, "B/s")) return *number * scale;
  return std::nullopt;
}

std::optional<double> take_seconds(std::string_view &text) {
  const std::optional<double> number = take_number(text);
  if (!number) return std::nullopt;
  if (take(text, "us")) return *number * 1e-6;
  if (take(text, "ms")) return *number * 1e-3;
  return take(text, "s") ? number : std::nullopt;
}

} // namespace

std::optional<LinkProfile> parse_rate(const std::string &text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  std::string_view rest = text;
  LinkProfile link;
  const std::optional<double> rate = take_rate(rest);
  std::optional<double> delay = 0;
  if (rate && take(rest, ",")) delay = take_seconds(rest);
  if (!rate || *rate <= 0 || *rate > 1e18 || !delay || *delay > 1e6 || !rest.empty())
    throw UsageError("'" + text + "' is not the speed of a link; " + kForm);
  link.bandwidth = *rate;
  link.round_trip = *delay;
  return link;
}

LinkProfile resolve_link(const std::string &text) {
  if (text.empty())
    throw UsageError(std::string("the link is empty; ") + kForm + ", a profile, or a command");
  const bool named_like_file = text.size() > 5 && text.compare(text.size() - 5, 5, ".json") == 0;
  std::error_code ignored;
  if (text == "-" || named_like_file || std::filesystem::is_regular_file(text, ignored)) {
    const Profile profile = load_profile(text);
    if (!profile.link)
      throw Error(profile.origin + ": has no link; measure one with: tl-profile link --via COMMAND");
    return *profile.link;
  }
  if (const std::optional<LinkProfile> stated = parse_rate(text)) return *stated;
  return measure_link(text);
}

} // namespace tl::plan
