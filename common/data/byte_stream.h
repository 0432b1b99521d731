// Private to common/data: bytes that come one after another, from a file, a pipe or an object store, and
// what packing them added taken off again.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tl::data {

class ByteStream {
public:
  virtual ~ByteStream() = default;
  /// Up to `size` bytes, at least one; 0 only at the end. Throws Error.
  virtual std::size_t read(void *buffer, std::size_t size) = 0;
};

/// Of a file or a pipe; "-" is stdin. Throws Error naming it.
std::unique_ptr<ByteStream> open_stream(const std::string &path);

/// A stream whose first bytes can be looked at.
class PeekedStream final : public ByteStream {
public:
  /// `size`: how many; fewer only if the stream is shorter.
  PeekedStream(std::unique_ptr<ByteStream> inner, std::size_t size);
  const std::string &head() const { return head_; }
  std::size_t read(void *buffer, std::size_t size) override;

private:
  std::unique_ptr<ByteStream> inner_;
  std::string head_;
  std::size_t given_ = 0; // of head_
};

/// "gzip", "xz", ... by the first bytes; "" for what unpack() does not know.
std::string packing(std::string_view head);

/// The contents of a stream for which packing() names something. read() throws FormatError "name: ..."
/// for damaged or cut-off data.
std::unique_ptr<ByteStream> unpack(std::unique_ptr<ByteStream> packed, const std::string &name);

} // namespace tl::data
