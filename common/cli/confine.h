// Keeps a process that works for somebody else inside one folder.
#pragma once

#include <string>

namespace tl::cli {

/// The real path of `path`, with every link resolved; a relative one starts at `root`. Throws Error if it
/// does not exist, or is not below `root`, naming the path as it was given.
std::string path_below(const std::string &root, const std::string &path);

/// From now on this process, and every thread that it starts, reads no file but those below `root` and what
/// the system tells it about itself and the processors, and changes none but those below `writable`. The
/// kernel sees to it where it has Landlock (Linux 5.13 and later); those who open data ask may_read() in any
/// case. There is no way back.
void confine(const std::string &root, const std::string &writable);

/// False if this process is confined and `path` leads to something that is elsewhere.
bool may_read(const std::string &path);

} // namespace tl::cli
