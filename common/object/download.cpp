#include "object/download.h"

#include "object/http_store.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace tl::object {

namespace {

// An answer that brought as much resets the number of attempts: a large object on a poor link arrives.
constexpr std::uint64_t kProgress = 1 << 20;

/// -1 when it is no number.
std::int64_t number(std::string_view text) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0 ? value : -1;
}

struct ContentRange {
  std::int64_t first = -1, size = -1;
};

/// "bytes FIRST-LAST/SIZE"
ContentRange parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const std::size_t dash = text.find('-'), slash = text.find('/');
  if (text.substr(0, kUnit.size()) != kUnit || dash == std::string_view::npos ||
      slash == std::string_view::npos)
    return {};
  return {number(text.substr(kUnit.size(), dash - kUnit.size())), number(text.substr(slash + 1))};
}

} // namespace

Download::Download(std::string name, const GetOptions &options) : name_(std::move(name)), options_(options) {}

std::vector<std::string> Download::headers() const {
  std::vector<std::string> headers;
  const std::uint64_t first = options_.range.offset + done_;
  if (first > 0 || options_.range.length) {
    std::string range = "Range: bytes=" + std::to_string(first) + "-";
    if (options_.range.length) range += std::to_string(options_.range.offset + *options_.range.length - 1);
    headers.push_back(range);
  }
  const std::string &etag = known_ ? content_.etag : options_.if_match;
  if (!etag.empty()) headers.push_back("If-Match: \"" + etag + "\"");
  return headers;
}

void Download::check_version(const Response &response) {
  const std::string etag = bare_etag(response.header("etag"));
  const std::string &wanted = known_ ? content_.etag : options_.if_match;
  if ((known_ || !options_.if_match.empty()) && etag != wanted)
    throw ObjectError(ObjectError::Kind::changed,
                      name_ + ": was replaced by another version while it was read");
  content_.etag = etag;
}

void Download::learn_size(std::uint64_t object_size) {
  if (known_ && object_size != content_.object_size)
    throw ObjectError(ObjectError::Kind::changed, name_ + ": changed its size while it was read");
  if (known_) return;
  const std::uint64_t left = object_size - std::min(object_size, options_.range.offset);
  const std::uint64_t size = std::min(left, options_.range.length.value_or(left));
  if (size > options_.limit)
    throw ObjectError(ObjectError::Kind::unusable, name_ + ": " + std::to_string(size) +
                                                       " bytes are more than the limit of " +
                                                       std::to_string(options_.limit));
  content_.size = static_cast<std::size_t>(size);
  content_.object_size = object_size;
  content_.data = std::shared_ptr<std::byte>(new std::byte[std::max<std::size_t>(content_.size, 1)],
                                             std::default_delete<std::byte[]>());
  known_ = true;
}

void Download::begin(const Response &response) {
  const auto refuse = [&](const std::string &what) {
    throw ObjectError(ObjectError::Kind::failed, name_ + ": the server's answer " + what);
  };
  check_version(response);
  begun_ = done_;
  const std::uint64_t first = options_.range.offset + done_;
  if (response.status == 206) {
    const ContentRange range = parse_content_range(response.header("content-range"));
    if (range.size < 0 || range.first != static_cast<std::int64_t>(first))
      refuse("is not the range that was asked for");
    learn_size(static_cast<std::uint64_t>(range.size));
    skip_ = 0;
    return;
  }
  const std::int64_t size = number(response.header("content-length"));
  if (size < 0) refuse("does not say how long the object is");
  learn_size(static_cast<std::uint64_t>(size));
  skip_ = first;
}

void Download::receive(const char *data, std::size_t size) {
  const std::size_t skipped = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, size));
  skip_ -= skipped;
  data += skipped;
  // What comes after the range is not wanted: the server did not understand it.
  const std::size_t part = std::min(size - skipped, content_.size - static_cast<std::size_t>(done_));
  if (part > 0) std::memcpy(content_.data.get() + done_, data, part);
  done_ += part;
}

bool Download::progressed() { return done_ - begun_ >= kProgress; }

} // namespace tl::object
