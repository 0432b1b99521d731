// What it costs a core to move features between programs, whatever the network between them.
#pragma once

#include "plan/profile.h"

#include <optional>

namespace tl::profile {

/// Sends made-up features through a TCP connection of this host to itself, as tl-extract does, and keeps them
/// as tl-train does, in memory in place of a disk. Takes about 0.2 s and 100 MB. Nothing where the host
/// cannot reach itself. Throws SystemError.
std::optional<plan::StreamSpeed> measure_stream();

} // namespace tl::profile
