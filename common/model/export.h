#pragma once

#include "model/model.h"

#include <map>
#include <string>

namespace tl::model {

/// Writes the model as a TorchScript file that plain LibTorch and torch.jit.load() read, with the
/// module tree, and so the state_dict keys, of the original. `extra` become files in the archive
/// (torch.jit.load(path, _extra_files={"tl.json": ""})). The file appears whole or not at all.
void save_model(const Model &model, const std::string &path, const std::map<std::string, std::string> &extra);

/// One of the extra files of an archive, or "" if it has none of that name.
std::string read_extra(const std::string &path, const std::string &name);

} // namespace tl::model
