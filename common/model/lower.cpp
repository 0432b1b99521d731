#include "model/lower.h"

#include "cli/error.h"
#include "model/interpreter.h"
#include "model/load.h"
#include "model/recorder.h"
#include "model/tensors.h"

#include <torch/script.h>

namespace tl::model {

namespace {

/// Records for the probe: equal in their first rows, and not constant, so that mixing shows.
std::array<at::Tensor, 2> probe_inputs(const InputSpec &input) {
  at::Generator generator = at::detail::createCPUGenerator(20221);
  std::vector<std::int64_t> sizes = input.shape;
  sizes.insert(sizes.begin(), kProbeBatch[1]);
  // Token ids 0 and 1 exist in every vocabulary.
  const at::Tensor all = input.dtype == DType::i64 ? at::randint(0, 2, sizes, generator, at::kLong)
                                                   : at::randn(sizes, generator, at::kFloat);
  return {all.narrow(0, 0, kProbeBatch[0]).clone(), all};
}

void register_tensors(const torch::jit::Module &module, Interpreter &interpreter) {
  for (const auto &named : module.named_parameters(true))
    interpreter.add_parameter(named.name, named.value, false);
  for (const auto &named : module.named_buffers(true))
    interpreter.add_parameter(named.name, named.value, true);
  for (const auto &named : module.named_modules()) {
    const auto type = named.value.type()->name();
    const std::string kind = type ? type->name() : "";
    interpreter.add_module(named.value._ivalue().get(), named.name,
                           kind == "Sequential" || kind == "ModuleList");
  }
}

std::vector<Known> arguments(const torch::jit::Method &forward, const InputSpec &input,
                             const std::string &path) {
  const auto &schema = forward.function().getSchema();
  std::vector<Known> result;
  const auto probes = probe_inputs(input);
  for (std::size_t i = 1; i < schema.arguments().size(); ++i) {
    auto leaf = std::make_shared<Leaf>();
    const c10::Argument &argument = schema.arguments()[i];
    if (i == 1) {
      leaf->run[0] = probes[0];
      leaf->run[1] = probes[1];
      leaf->operand = graph::Operand::of_value(0);
      leaf->data = true;
    } else if (argument.default_value()) {
      leaf->run[0] = leaf->run[1] = *argument.default_value();
    } else {
      throw FormatError(path + ": forward() wants " + std::to_string(schema.arguments().size() - 1) +
                        " arguments ('" + argument.name() +
                        "' has no default); only models of one input are "
                        "supported: wrap it before the export");
    }
    result.push_back({leaf, nullptr, false});
  }
  if (result.empty()) throw FormatError(path + ": forward() takes no input");
  return result;
}

} // namespace

Model lower(const torch::jit::Module &module, const InputSpec &input, const std::string &path) {
  const auto forward = module.find_method("forward");
  if (!forward) throw FormatError(path + ": the module has no forward() method");
  const at::NoGradGuard no_grad;
  Recorder recorder(input, path);
  Interpreter interpreter(recorder, path);
  register_tensors(module, interpreter);
  Known output;
  try {
    output = interpreter.call_method(module._ivalue(), forward->function(), arguments(*forward, input, path));
  } catch (const c10::Error &error) {
    throw FormatError(path + ": " + interpreter.place() + ": fails for batches of " +
                      std::to_string(kProbeBatch[0]) + " and " + std::to_string(kProbeBatch[1]) +
                      " records of shape " + to_string(input.shape) + ": " +
                      first_line(error.what_without_backtrace()));
  }
  while (output.items && output.items->size() == 1) { // a tuple or list of one
    const Known only = output.items->front();
    output = only;
  }
  if (!output.leaf || !output.leaf->run[0].isTensor())
    throw FormatError(path + ": forward() must return one tensor, but returns " +
                      (output.items ? std::to_string(output.items->size()) + " values" : "something else") +
                      "; wrap it before the export");
  return recorder.finish(*output.leaf);
}

} // namespace tl::model
