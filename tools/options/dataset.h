// What is said of a data set, to every program that reads one.
#pragma once

#include "data/source.h"

#include <CLI/CLI.hpp>

#include <string>

namespace tl::tools {

/// --data-format, --missing, --classes, --limit and --split, in the help's section `group`.
void add_dataset_options(CLI::App &app, data::SourceOptions &options, const std::string &group = "Options");

} // namespace tl::tools
