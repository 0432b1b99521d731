// What tl-profile can be told.
#pragma once

#include "cli/app.h"
#include "data/source.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tl::tools {

struct ProfileArguments {
  std::string output = "-", model, dataset, preprocess, via;
  std::vector<std::int64_t> batches;
  int threads = 0;
  double seconds = 20, link_seconds = 2;
  bool allow_bf16 = false;
  std::size_t records = 256;
  data::SourceOptions source;
};

/// The command line of tl-profile; cli::run() parses it.
class ProfileCommand {
public:
  ProfileCommand();
  cli::App app; // with the sub-commands model, data, host and link

  /// After parsing.
  const ProfileArguments &arguments() const { return given_; }

private:
  ProfileArguments given_;
};

} // namespace tl::tools
