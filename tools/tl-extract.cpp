// tl-extract: a plan and a data set in, feature shards out.
#include "lease/lease.h"
#include "network.h"
#include "options/extract.h"
#include "runtime/memory_use.h"

namespace {

/// Joins those who share the memory of this host, and waits until there is room to load LibTorch.
void wait_for_memory(const tl::tools::ExtractArguments &arguments, char **argv) {
  tl::lease::Options options = lease_options(arguments);
  options.idle = tl::own_memory();
  tl::lease::Lease lease(options);
  lease.load();
  lease.pass_on();
  tl::tools::become_network_program("tl-extract", argv);
}

} // namespace

int main(int argc, char **argv) {
  tl::tools::ExtractCommand command;
  return tl::cli::run(command.app, argc, argv, [&]() -> tl::ExitCode {
    const tl::tools::ExtractArguments arguments = command.arguments();
    if (budgeted(arguments)) wait_for_memory(arguments, argv);
    tl::tools::become_network_program("tl-extract", argv);
  });
}
