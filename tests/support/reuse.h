// Values of made-up networks, for tests of reuse.
#pragma once

#include "reuse/problem.h"

#include <random>
#include <string>

namespace tl::test {

inline double uniform(std::mt19937 &random, double low, double high) {
  return std::uniform_real_distribution<>(low, high)(random);
}
inline int integer(std::mt19937 &random, int low, int high) {
  return std::uniform_int_distribution<>(low, high)(random);
}

/// The n-th value of a chain or a net with skips, as networks are.
inline reuse::Node random_node(std::mt19937 &random, int n) {
  reuse::Node node;
  node.name = "v" + std::to_string(n);
  if (n > 0) node.inputs = {n - 1};
  if (n > 2 && integer(random, 0, 2) == 0) node.inputs.push_back(integer(random, 0, n - 2));
  node.compute = uniform(random, 0, 10);
  node.load = uniform(random, 0, 3);
  node.write = uniform(random, 0, 1);
  node.bytes = uniform(random, 1, 20);
  node.storable = integer(random, 0, 5) > 0;
  return node;
}

} // namespace tl::test
