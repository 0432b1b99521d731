#include "cli/error.h"
#include "cli/io.h"
#include "shard/safetensors.h"

#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>

namespace tl::shard {

Block map_file(const std::string &path) {
  const cli::Descriptor file = cli::open_input(path);
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) throw SystemError("stat " + path, errno);
  if (!S_ISREG(info.st_mode)) throw Error(path + ": not a regular file; one is needed here");
  Block block;
  block.size = static_cast<std::size_t>(info.st_size);
  if (block.size == 0) return block;
  // Private and writable, so that code that writes to a tensor changes its own copy of the page;
  // NORESERVE, because a file larger than memory must not be refused for pages nobody writes.
  void *mapped =
      mmap(nullptr, block.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (mapped == MAP_FAILED) throw SystemError("map " + path, errno);
  const std::size_t size = block.size;
  block.data = std::shared_ptr<std::byte>(static_cast<std::byte *>(mapped),
                                          [size](std::byte *start) { munmap(start, size); });
  return block;
}

void read_ahead(const Block &mapped) {
  if (mapped.size > 0) ::madvise(mapped.data.get(), mapped.size, MADV_WILLNEED); // a hint: it may fail
}

ByteSink descriptor_sink(int fd, std::string name) {
  return [fd, name = std::move(name)](const void *data, std::size_t size) {
    cli::write_full(fd, data, size, name);
  };
}

ByteSink string_sink(std::string &text) {
  return [&text](const void *data, std::size_t size) { text.append(static_cast<const char *>(data), size); };
}

} // namespace tl::shard
