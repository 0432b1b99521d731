#pragma once

#include "model/model.h"

#include <map>
#include <string>

namespace tl::model {

/// Writes the model as a TorchScript file that plain LibTorch and torch.jit.load() read, with the
/// module tree, and so the state_dict keys, of the original. `extra` become files in the archive
/// (torch.jit.load(path, _extra_files={"tl.json": ""})). The names of the values travel along and are
/// found again by load_model(). The file appears whole or not at all.
void save_model(const Model &model, const std::string &path, const std::map<std::string, std::string> &extra);

/// Gives the values of a graph that was lowered from `path` the names that save_model() stored there,
/// if it wrote the file: the code that it writes has no modules to name them by.
void restore_names(graph::Graph &graph, const std::string &path);

/// One of the extra files of an archive, or "" if it has none of that name.
std::string read_extra(const std::string &path, const std::string &name);

} // namespace tl::model
