#include "graph/execution.h"

#include "cli/error.h"

namespace tl::graph {

std::string_view name_of(Execution execution) {
  switch (execution) {
  case Execution::blocked:
    return "blocked";
  case Execution::channels_last:
    return "channels-last";
  case Execution::bf16:
    return "bf16";
  }
  return "";
}

Execution execution_from_name(const std::string &name) {
  for (const Execution execution : kExecutions)
    if (name == name_of(execution)) return execution;
  throw UsageError("no way to run layers is named '" + name + "'; there are blocked, channels-last and bf16");
}

} // namespace tl::graph
