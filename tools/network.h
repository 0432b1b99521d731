// From the program that a user starts to the one that runs networks.
//
// LibTorch and OpenCV take half a second to load and tens of megabytes of each process. Help, a mistake on
// the command line, and waiting for memory need neither: bin/ has small programs that do those, and become
// the program of the same name in libexec/ when there is work for it. It reads the same command line by the
// same code (tools/options).
#pragma once

namespace tl::tools {

/// Never returns. Throws Error if the program is not there.
[[noreturn]] void become_network_program(const char *name, char **arguments);

} // namespace tl::tools
