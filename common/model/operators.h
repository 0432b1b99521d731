// What the lowering must know about TorchScript operators beyond running them.
#pragma once

#include <string>

namespace tl::model {

/// Reads the shape, type or device of a tensor, not its contents.
bool reads_metadata_only(const std::string &op);
/// Draws random numbers.
bool is_random(const std::string &op);
/// Dropout in any of its forms; input 2 is the training flag.
bool is_dropout(const std::string &op);
/// Reads or writes files, or reaches outside the tensor program in another way.
bool touches_files(const std::string &op);
/// The operator has no derivative in LibTorch 1.13.
bool lacks_gradient(const std::string &op);
/// "aten::relu_" -> "aten::relu"; "" if the name is not that of an in-place operator.
std::string functional_name(const std::string &op);

} // namespace tl::model
