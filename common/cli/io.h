// Files and descriptors with every failure reported, and outputs that appear whole or not at all.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace tl::cli {

/// An owned file descriptor. Closing errors are reported by close(), not by the destructor.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int fd, bool owned = true) : fd_(fd), owned_(owned) {}
  Descriptor(Descriptor &&other) noexcept;
  Descriptor &operator=(Descriptor &&other) noexcept;
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  ~Descriptor();

  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }
  /// Throws SystemError naming `name` if close(2) reports a lost write.
  void close(const std::string &name);

private:
  int fd_ = -1;
  bool owned_ = false;
};

/// Opens for reading; "-" is stdin. Throws Error that names the file. A directory is refused.
Descriptor open_input(const std::string &path);

/// Reads until `size` bytes are there or the end; a short read or EINTR is not the end.
/// Returns the bytes read. Throws SystemError, or Interrupted on a signal.
std::size_t read_full(int fd, void *buffer, std::size_t size, const std::string &name);

/// Writes all of it. EPIPE becomes ClosedPipe, everything else SystemError naming `name`. Throws
/// Interrupted on a signal while a pipe is full, since its reader may be stuck.
void write_full(int fd, const void *buffer, std::size_t size, const std::string &name);

/// The whole of a file, or of stdin for "-". Throws FormatError over `limit` bytes.
std::string read_file(const std::string &path, std::size_t limit);

/// A file that appears at `path` whole (write to a temporary name in the same folder, fsync,
/// rename, fsync the folder) or not at all: without commit() the temporary is removed. A device or a
/// pipe at `path` is written to as it is.
class AtomicFile {
public:
  /// Creates missing parent folders. Throws SystemError.
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  ~AtomicFile();

  void write(const void *data, std::size_t size);
  void write(const std::string &text) { write(text.data(), text.size()); }
  int descriptor() const noexcept { return file_.get(); }
  /// Name of the temporary file, for libraries that want a path to write to.
  const std::string &temporary() const noexcept { return temporary_; }
  void commit();

private:
  std::string path_;
  std::string temporary_;
  Descriptor file_;
};

/// The name of the file that this one would have become, if it is AtomicFile's temporary (a name without
/// folders), which a process that was killed leaves behind; "" if it is none.
std::string target_of_temporary(const std::string &name);

/// Removes AtomicFile's temporaries in `folder` (not below it) whose target's name `ours` is true for. A
/// folder that is not there, or a file that cannot be removed, is left.
void remove_temporaries(const std::string &folder, const std::function<bool(const std::string &)> &ours);

/// Writes `text` to `path` atomically, or to stdout for "-".
void write_output(const std::string &path, const std::string &text);

/// Throws SystemError if fsync of the folder fails.
void sync_folder(const std::string &folder);

} // namespace tl::cli
