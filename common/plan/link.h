// The link between the two sides: stated, read from a profile, or measured through a command.
#pragma once

#include "plan/profile.h"

#include <optional>
#include <string>

namespace tl::plan {

/// "100Mbit/s", "12.5MB/s", "1Gbit/s,5ms" (a round trip). Prefixes k, M, G, T are decimal. Nothing
/// if the text does not begin with a number; UsageError if it does but is not of that form.
std::optional<LinkProfile> parse_rate(const std::string &text);

/// What --link takes: a rate; a profile with a link section (a file, or "-"); else a command.
LinkProfile resolve_link(const std::string &text);

/// Measures through a command that runs its last argument on the storage side and joins its stdin
/// and stdout: "ssh storage", "docker exec -i store", "env" for this machine. Runs
/// `/bin/sh -c "COMMAND sh"` and gives that shell a script on stdin, so nothing has to be installed
/// or quoted. First round trips of one line (the median), then random bytes for `seconds` after a
/// warm-up (the mean rate). Throws Error when the command fails or nothing comes within a minute.
LinkProfile measure_link(const std::string &command, double seconds = 2.0);

} // namespace tl::plan
