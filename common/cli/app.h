// What every program of the toolkit shares: option parsing, exit codes, --version, signals.
#pragma once

#include "cli/error.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <string>

namespace tl::cli {

/// A CLI11 application with the options that every program has: --help, --version, --quiet.
/// `examples` is printed under --help, one command a line.
class App : public CLI::App {
public:
  App(const std::string &program, const std::string &description, const std::string &examples);
};

/// For Option::transform(): an amount of memory or disk, "1500", "64k", "1.5GiB", becomes bytes.
/// Prefixes are powers of 1024 (k, M, G, T), as human_bytes() writes them.
CLI::Validator size_in_bytes();

/// Runs one program: installs the signal handlers, parses, calls `body`, and turns whatever is
/// thrown into one line on stderr and an exit status. `body` returns the status of success
/// (ok, or skipped). stdout is checked at the end: a full disk or a closed stdout is a failure.
int run(App &app, int argc, char **argv, const std::function<ExitCode()> &body);

} // namespace tl::cli
