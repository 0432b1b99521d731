#include "model/export.h"

#include "cli/error.h"
#include "cli/io.h"
#include "model/build.h"
#include "model/load.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/script.h>

#include <set>
#include <sstream>

namespace tl::model {

namespace {

std::vector<std::string> split_path(const std::string &name) {
  std::vector<std::string> parts;
  std::istringstream stream(name);
  for (std::string part; std::getline(stream, part, '.');) parts.push_back(part);
  return parts;
}

/// The module tree that the parameters' names describe.
class ModuleTree {
public:
  explicit ModuleTree(const std::string &type)
      : unit_(std::make_shared<torch::jit::CompilationUnit>()), type_(type), root_(make("")) {
    modules_.emplace("", root_);
  }

  torch::jit::Module &root() { return root_; }

  void add(const graph::Parameter &parameter, const at::Tensor &tensor) {
    const auto [folder, leaf] = place(parameter.name);
    torch::jit::Module module = folder_module(folder);
    if (parameter.buffer)
      module.register_buffer(leaf, tensor);
    else
      module.register_parameter(leaf, tensor, false);
  }

  /// Submodules can be registered only when their own types are complete: innermost first.
  void connect() {
    for (auto entry = modules_.rbegin(); entry != modules_.rend(); ++entry) {
      if (entry->first.empty()) continue;
      const auto [folder, leaf] = place(entry->first);
      modules_.at(folder).register_module(leaf, entry->second);
    }
  }

  static std::pair<std::string, std::string> place(const std::string &name) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos) return {"", name};
    return {name.substr(0, dot), name.substr(dot + 1)};
  }

private:
  torch::jit::Module make(const std::string &path) {
    std::string name = "__torch__.tl." + type_;
    for (const std::string &part : split_path(path)) name += "_" + part;
    return torch::jit::Module(c10::QualifiedName(name), unit_, true);
  }

  torch::jit::Module folder_module(const std::string &path) {
    const auto found = modules_.find(path);
    if (found != modules_.end()) return found->second;
    folder_module(place(path).first);
    return modules_.emplace(path, make(path)).first->second;
  }

  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  std::string type_;
  torch::jit::Module root_;
  std::map<std::string, torch::jit::Module> modules_; // a parent sorts before its children
};

void define_forward(const Model &model, torch::jit::Module &root) {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::Value *self = graph->addInput("self");
  self->setType(root.type());
  const auto parameter = [&](torch::jit::Graph &target, int index) {
    torch::jit::Value *object = self;
    for (const std::string &part : split_path(model.graph.parameters[static_cast<std::size_t>(index)].name))
      object = target.insertGetAttr(object, part);
    return object;
  };
  build(model, {0}, {model.graph.output}, *graph, parameter, nullptr);
  graph->inputs()[1]->setDebugName("x");
  const c10::QualifiedName name(*root.type()->name(), "forward");
  auto *forward = root._ivalue()->compilation_unit()->create_function(name, graph);
  root.type()->addMethod(forward);
}

/// Hashes of values -> names. Free of preprocessing and of the parameters' contents, which training
/// has changed since the graph was hashed.
constexpr const char *kNamesFile = "tl-names.json";

std::map<Digest, std::size_t> values_by_hash(graph::Graph graph) {
  for (graph::Parameter &parameter : graph.parameters) parameter.fresh = true; // hashed by its name
  graph::compute_hashes(graph, Digest());
  std::map<Digest, std::size_t> found;
  for (std::size_t id = 0; id < graph.values.size(); ++id) found.emplace(graph.values[id].hash, id);
  return found;
}

std::string names_of(const graph::Graph &graph) {
  json::Value names = json::Value::object();
  for (const auto &[hash, id] : values_by_hash(graph)) names[hash.hex()] = graph.values[id].name;
  return json::compact(names);
}

} // namespace

void restore_names(graph::Graph &graph, const std::string &path) {
  const std::string text = read_extra(path, kNamesFile);
  if (text.empty()) return;
  const json::Value names = json::parse(text, path + ": " + kNamesFile);
  std::set<std::string> used;
  std::vector<std::string> stored(graph.values.size());
  for (const auto &[hash, id] : values_by_hash(graph)) {
    const auto name = names.find(hash.hex());
    if (name != names.end() && name->is_string() && used.insert(name->get<std::string>()).second)
      stored[id] = name->get<std::string>();
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    graph::Value &value = graph.values[id];
    if (stored[id].empty() || stored[id] == value.name) {
      if (stored[id].empty() && used.count(value.name)) value.name += ":" + std::to_string(id);
      continue;
    }
    value.name = stored[id];
    value.aliases.clear();
  }
}

void save_model(const Model &model, const std::string &path,
                const std::map<std::string, std::string> &extra) {
  ModuleTree tree("Model");
  for (std::size_t i = 0; i < model.graph.parameters.size(); ++i) {
    if (!model.parameters[i].defined())
      throw Error(path + ": parameter '" + model.graph.parameters[i].name + "' has no contents");
    tree.add(model.graph.parameters[i], model.parameters[i].detach());
  }
  tree.connect();
  define_forward(model, tree.root());
  tree.root().eval();
  torch::jit::ExtraFilesMap files(extra.begin(), extra.end());
  files[kNamesFile] = names_of(model.graph);
  cli::AtomicFile file(path);
  // In memory first: LibTorch's own file writer does not report a full disk reliably.
  std::ostringstream archive;
  tree.root().save(archive, files);
  file.write(archive.str());
  file.commit();
}

std::string read_extra(const std::string &path, const std::string &name) {
  try {
    caffe2::serialize::PyTorchStreamReader reader(path);
    if (!reader.hasRecord("extra/" + name)) return "";
    const auto [data, size] = reader.getRecord("extra/" + name);
    return std::string(static_cast<const char *>(data.get()), size);
  } catch (const c10::Error &error) {
    throw FormatError(path + ": not a TorchScript archive: " + first_line(error.what_without_backtrace()));
  }
}

} // namespace tl::model
