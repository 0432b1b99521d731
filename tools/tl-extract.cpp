// tl-extract: a plan and a data set in, feature shards out.
#include "lease/lease.h"
#include "network.h"
#include "options/extract.h"
#include "runtime/memory_use.h"

#include <memory>

namespace {

/// Joins those who share the memory of this host, if it is to, and waits until there is room to load
/// LibTorch.
std::unique_ptr<tl::lease::Lease> wait_for_memory(const tl::tools::ExtractArguments &arguments) {
  if (!budgeted(arguments)) return nullptr;
  tl::lease::Options options = lease_options(arguments);
  options.idle = tl::own_memory();
  auto lease = std::make_unique<tl::lease::Lease>(options);
  lease->load();
  return lease;
}

} // namespace

int main(int argc, char **argv) {
  tl::tools::ExtractCommand command;
  return tl::cli::run(command.app, argc, argv, [&]() -> tl::ExitCode {
    const auto lease = wait_for_memory(command.arguments());
    if (lease) lease->pass_on();
    tl::tools::become_network_program("tl-extract", argv);
  });
}
