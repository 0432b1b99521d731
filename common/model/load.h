#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace tl::model {

/// Loads a TorchScript file on the CPU, in evaluation mode. Throws FormatError with one line that
/// says what the file is instead: a state_dict or pickle, truncated, written by a newer LibTorch, ...
torch::jit::Module load_torchscript(const std::string &path);

/// The first line of a LibTorch exception, without its source location and backtrace.
std::string first_line(const std::string &what);

} // namespace tl::model
