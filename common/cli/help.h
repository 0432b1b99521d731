// How --help looks.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace tl::cli {

/// Shows an option as "-o, --output FILE=-" without the ranges of its values (a wrong value's error
/// tells them), and wraps descriptions so that a line fits a terminal.
class HelpFormatter : public CLI::Formatter {
public:
  HelpFormatter();
  std::string make_option_name(const CLI::Option *option, bool positional) const override;
  std::string make_option_opts(const CLI::Option *option) const override;
  std::string make_option_desc(const CLI::Option *option) const override;
};

} // namespace tl::cli
