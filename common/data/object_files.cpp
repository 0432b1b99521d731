#include "data/object_files.h"

#include "cli/confine.h"
#include "data/decode.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <map>
#include <mutex>

namespace tl::data {

namespace {

// Requests in flight: at 50 ms a request, 32 of them bring 640 records a second over whatever link.
constexpr std::size_t kInFlight = 32;
constexpr std::size_t kPart = std::size_t{8} << 20; // of a stream
constexpr std::size_t kPartsAhead = 3;

Tensor read_object(const object::ObjectStore &store, const std::string &key) {
  object::GetOptions options;
  options.limit = kMaxRecordBytes;
  try {
    const object::Content content = store.get(key, options);
    if (content.size == 0) throw DecodeError("0 bytes");
    return {DType::u8, {static_cast<std::int64_t>(content.size)}, content.data};
  } catch (const object::ObjectError &error) {
    if (error.kind() == object::ObjectError::Kind::failed) throw; // nor would the next record be got
    throw DecodeError(std::string("cannot be read: ") + error.what());
  }
}

class PrefixReader final : public FileReader {
public:
  PrefixReader(Store store, std::string prefix) : store_(std::move(store)), prefix_(std::move(prefix)) {}
  Tensor read(const std::string &id, std::int64_t) const override {
    return read_object(*store_, prefix_ + id);
  }
  std::size_t reads_in_flight() const override { return kInFlight; }

private:
  Store store_;
  std::string prefix_;
};

/// Any number of buckets.
class UrlReader final : public FileReader {
public:
  explicit UrlReader(std::shared_ptr<const FileReader> others) : others_(std::move(others)) {}
  Tensor read(const std::string &id, std::int64_t row) const override {
    if (!object::is_url(id)) return others_->read(id, row);
    if (!may_read_objects()) throw DecodeError("lies outside of the folder that this process is confined to");
    const object::Url url = object::parse_url(id);
    return read_object(*store_of(url), url.key);
  }
  std::optional<FileState> state(const std::string &id) const override {
    return object::is_url(id) ? std::nullopt : others_->state(id);
  }
  std::size_t reads_in_flight() const override { return kInFlight; }

private:
  Store store_of(const object::Url &url) const {
    const std::lock_guard<std::mutex> guard(mutex_);
    Store &store = stores_[url.scheme + "://" + url.bucket];
    if (!store) store = object::open_store(url);
    return store;
  }

  std::shared_ptr<const FileReader> others_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, Store> stores_;
};

class ObjectStream final : public ByteStream {
public:
  ObjectStream(Store store, std::string key) : store_(std::move(store)), key_(std::move(key)) {
    const std::optional<object::ObjectInfo> info = store_->head(key_);
    if (!info) throw Error(store_->name(key_) + ": there is no such object");
    info_ = *info;
  }

  std::size_t read(void *buffer, std::size_t size) override {
    while (offset_ == part_.size) {
      while (asked_ < info_.size && parts_.size() < kPartsAhead) ask();
      if (parts_.empty()) return 0;
      part_ = parts_.front().get();
      parts_.pop_front();
      offset_ = 0;
    }
    const std::size_t count = std::min(size, part_.size - offset_);
    std::memcpy(buffer, part_.data.get() + offset_, count);
    offset_ += count;
    return count;
  }

private:
  void ask() {
    object::GetOptions options;
    options.range = {asked_, std::min<std::uint64_t>(kPart, info_.size - asked_)};
    options.if_match = info_.etag;
    asked_ += *options.range.length;
    parts_.push_back(std::async(std::launch::async, [this, options] { return store_->get(key_, options); }));
  }

  Store store_;
  std::string key_;
  object::ObjectInfo info_;
  std::uint64_t asked_ = 0; // bytes that parts have been asked for
  object::Content part_;
  std::size_t offset_ = 0; // in part_
  std::deque<std::future<object::Content>> parts_;
};

} // namespace

std::shared_ptr<const FileReader> objects_below(Store store, std::string prefix) {
  return std::make_shared<PrefixReader>(std::move(store), std::move(prefix));
}

bool may_read_objects() { return cli::may_read("/"); }

void open_urls(Listing &listing) {
  const bool urls = std::any_of(listing.records.begin(), listing.records.end(),
                                [](const Record &record) { return object::is_url(record.id); });
  if (urls) listing.files = std::make_shared<UrlReader>(listing.files);
}

std::unique_ptr<ByteStream> object_stream(Store store, const std::string &key) {
  return std::make_unique<ObjectStream>(std::move(store), key);
}

} // namespace tl::data
