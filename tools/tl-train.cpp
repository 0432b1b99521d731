// tl-train: features (or a data set) and a scheme in, a trained TorchScript model out.
#include "network.h"
#include "options/train.h"

int main(int argc, char **argv) {
  tl::tools::TrainCommand command;
  return tl::cli::run(command.app, argc, argv, [&]() -> tl::ExitCode {
    command.arguments();
    command.training();
    tl::tools::become_network_program("tl-train", argv);
  });
}
