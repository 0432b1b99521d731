// tl-select: an experiment and a data set in, a leaderboard and the best model out.
#include "network.h"
#include "options/select.h"

int main(int argc, char **argv) {
  tl::tools::SelectCommand command;
  return tl::cli::run(command.app, argc, argv, [&]() -> tl::ExitCode {
    command.arguments();
    tl::tools::become_network_program("tl-select", argv);
  });
}
