// Private to common/object: the bytes of an object or a part of it, over as many answers as it takes.
#pragma once

#include "object/store.h"

namespace tl::object {

class Download : public Receiver {
public:
  /// `name`: of the object, for messages.
  Download(std::string name, const GetOptions &options);

  /// Range and If-Match for what is still missing.
  std::vector<std::string> headers() const override;
  bool complete() const { return known_ && done_ == content_.size; }
  std::uint64_t done() const { return done_; }
  Content take() { return std::move(content_); }

  void begin(const Response &response) override;
  void receive(const char *data, std::size_t size) override;
  bool progressed() override;

private:
  void check_version(const Response &response);
  void learn_size(std::uint64_t object_size);

  std::string name_;
  GetOptions options_;
  Content content_;
  bool known_ = false;      // size and version, from the first answer
  std::uint64_t done_ = 0;  // bytes of the content
  std::uint64_t skip_ = 0;  // bytes still to be left out: the server sends from the start
  std::uint64_t begun_ = 0; // done_ when the answer began
};

} // namespace tl::object
