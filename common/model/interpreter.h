// The lowering's interpreter of TorchScript IR: see lower.h.
#pragma once

#include "model/recorder.h"

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace tl::model {

class Interpreter {
public:
  Interpreter(Recorder &recorder, std::string path) : recorder_(recorder), path_(std::move(path)) {}

  void add_parameter(const std::string &name, const at::Tensor &tensor, bool buffer);
  void add_module(const c10::ivalue::Object *object, const std::string &path, bool container);

  /// Runs a method of `self`, a module of the tree, on `arguments` (without self).
  Known call_method(const c10::IValue &self, torch::jit::Function &function, std::vector<Known> arguments);

  /// The module and operator that ran last: where an error happened.
  std::string place() const { return module_.empty() ? operator_ : module_ + " (" + operator_ + ")"; }

private:
  using Environment = std::unordered_map<const torch::jit::Value *, Known>;
  using Node = torch::jit::Node;

  struct Module {
    std::string path;
    bool container = false;
  };

  std::vector<Known> run(const torch::jit::Graph &graph, std::vector<Known> arguments);
  void run_block(const torch::jit::Block *block, Environment &values);
  void run_node(Node *node, Environment &values);
  bool run_control(Node *node, Environment &values);
  bool run_structure(Node *node, Environment &values);
  bool run_list_operator(Node *node, Environment &values, const std::string &op);
  void run_if(Node *node, Environment &values);
  void run_loop(Node *node, Environment &values);
  void run_operator(Node *node, Environment &values);
  bool run_on_constants(Node *node, Environment &values);
  void run_in_place(Node *node, Environment &values, const std::string &functional);

  /// Executes `node` with both runs' inputs and records it; one result for each output.
  std::vector<Known> execute(Node *node, const std::vector<Known> &inputs, const std::string &op);
  std::vector<Known> record(const std::string &op, Node *node, const std::vector<Known> &inputs,
                            const std::vector<std::pair<c10::IValue, c10::IValue>> &outputs, bool data,
                            bool weights);
  Known unpack_list(const Known &list, const c10::IValue &first, const c10::IValue &second, bool data,
                    bool weights);
  Known sizes(const std::vector<Known> &inputs, const c10::IValue &first, const c10::IValue &second);

  c10::IValue value_of(const Known &known, int run, const c10::TypePtr &type) const;
  graph::Operand operand_of(const Known &known, const c10::TypePtr &type);
  Known constant(c10::IValue value) const;
  Known attribute(const c10::IValue &object, const std::string &name);
  /// A flag or count that decides what is executed: must not depend on the data or the batch size.
  c10::IValue decided(const Known &known, const char *what) const;
  void check_not_aliased(const Leaf &leaf, const Environment &values) const;
  [[noreturn]] void refuse(const std::string &why) const;

  Recorder &recorder_;
  std::string path_;
  std::string module_;   // path of the module that is running
  std::string operator_; // operator that is running
  std::unordered_map<const c10::ivalue::Object *, Module> modules_;
  std::unordered_map<const void *, std::shared_ptr<Leaf>> tensors_; // named tensors, by TensorImpl
  std::vector<const Environment *> frames_;
  int depth_ = 0;
};

} // namespace tl::model
