// Other programs as our children.
#pragma once

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace tl {

/// Starts `program`, which is looked for in PATH unless it is a path. `words`: its arguments, the first is
/// its own name. `descriptors`: {one of ours, the child's}. We ignore SIGPIPE; the child does not, or its
/// endless output would outlive a pipe. Throws SystemError "run `what`".
pid_t spawn(const std::string &program, const std::vector<std::string> &words,
            const std::vector<std::pair<int, int>> &descriptors, const std::string &what);

} // namespace tl
