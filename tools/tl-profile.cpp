// tl-profile: a model, a data set, this host or a link in, what was measured out.
#include "network.h"
#include "options/profile.h"

int main(int argc, char **argv) {
  tl::tools::ProfileCommand command;
  return tl::cli::run(command.app, argc, argv,
                      [&]() -> tl::ExitCode { tl::tools::become_network_program("tl-profile", argv); });
}
