// Tiny TorchScript models made by code, sound and otherwise, so that no test needs Python.
#pragma once

#include "model/model.h"

#include <torch/script.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace tl::test {

using Module = torch::jit::Module;

/// What conv_net() takes.
inline const model::InputSpec kPicture{DType::f32, {3, 8, 8}};

/// Deterministic contents, whatever was drawn before.
class Draws {
public:
  explicit Draws(std::uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}
  at::Tensor uniform(std::vector<std::int64_t> shape, double low, double high) {
    return torch::empty(shape).uniform_(low, high, generator_);
  }
  /// Of a layer with this many inputs to each output.
  at::Tensor weight(std::vector<std::int64_t> shape, std::int64_t fan_in) {
    const double bound = std::sqrt(3.0 / static_cast<double>(fan_in));
    return uniform(std::move(shape), -bound, bound);
  }

private:
  at::Generator generator_;
};

inline void parameter(Module &module, const std::string &name, const at::Tensor &tensor) {
  module.register_parameter(name, tensor, false);
}

/// The flag that train() and eval() set; Python's modules always have it.
inline void training_flag(Module &module) {
  module.register_attribute("training", c10::BoolType::get(), true);
}

/// 3x3 convolution without bias, "same" padding.
inline Module conv_module(const std::string &type, Draws &draws, std::int64_t in, std::int64_t out,
                          std::int64_t stride = 1) {
  Module m(type);
  parameter(m, "weight", draws.weight({out, in, 3, 3}, in * 9));
  const std::string s = std::to_string(stride);
  m.define("def forward(self, x):\n  return torch.conv2d(x, self.weight, None, [" + s + ", " + s +
           "], [1, 1], [1, 1], 1)\n");
  return m;
}

inline Module batch_norm_module(const std::string &type, Draws &draws, std::int64_t channels) {
  Module m(type);
  parameter(m, "weight", draws.uniform({channels}, 0.5, 1.5));
  parameter(m, "bias", draws.uniform({channels}, -0.5, 0.5));
  m.register_buffer("running_mean", draws.uniform({channels}, -0.2, 0.2));
  m.register_buffer("running_var", draws.uniform({channels}, 0.5, 1.5));
  training_flag(m);
  m.define("def forward(self, x):\n"
           "  return torch.batch_norm(x, self.weight, self.bias, self.running_mean, self.running_var,\n"
           "                          self.training, 0.1, 1e-5, False)\n");
  return m;
}

inline Module linear_module(const std::string &type, Draws &draws, std::int64_t in, std::int64_t out) {
  Module m(type);
  parameter(m, "weight", draws.weight({out, in}, in));
  parameter(m, "bias", draws.uniform({out}, -0.1, 0.1));
  m.define("def forward(self, x):\n  return torch.linear(x, self.weight, self.bias)\n");
  return m;
}

struct ConvNet {
  std::uint64_t seed = 1;
  std::int64_t classes = 3;
  std::int64_t channels = 8;
};

/// [3, H, W] of any even size: conv1, bn1, relu; `block`: a residual block of two convolutions with
/// batch-norms; `down`: a strided convolution with a ReLU in place; mean over space; `fc`.
/// Values, among others: "conv1", "bn1", "block", "down", "fc".
inline Module conv_net(const ConvNet &options = {}) {
  Draws draws(options.seed);
  const std::int64_t c = options.channels;
  Module block("Block");
  block.register_module("conv1", conv_module("BlockConv1", draws, c, c));
  block.register_module("bn1", batch_norm_module("BlockNorm1", draws, c));
  block.register_module("conv2", conv_module("BlockConv2", draws, c, c));
  block.register_module("bn2", batch_norm_module("BlockNorm2", draws, c));
  block.define("def forward(self, x):\n"
               "  y = torch.relu_(self.bn1.forward(self.conv1.forward(x)))\n"
               "  return torch.relu_(self.bn2.forward(self.conv2.forward(y)).add_(x))\n");
  Module net("ConvNet");
  net.register_module("conv1", conv_module("Conv1", draws, 3, c));
  net.register_module("bn1", batch_norm_module("Norm1", draws, c));
  net.register_module("block", block);
  net.register_module("down", conv_module("Down", draws, c, 2 * c, 2));
  net.register_module("fc", linear_module("Classifier", draws, 2 * c, options.classes));
  net.define("def forward(self, x):\n"
             "  x = torch.relu_(self.bn1.forward(self.conv1.forward(x)))\n"
             "  x = torch.relu_(self.down.forward(self.block.forward(x)))\n"
             "  return self.fc.forward(torch.flatten(torch.adaptive_avg_pool2d(x, [1, 1]), 1))\n");
  return net;
}

struct TokenNet {
  std::uint64_t seed = 1;
  std::int64_t vocabulary = 50, width = 8, classes = 3;
};

/// i64 token ids [T] -> embedding, one self-attention-free layer, mean over the sequence, classifier.
/// Values, among others: "embed", "mix", "fc".
inline Module token_net(const TokenNet &options = {}) {
  Draws draws(options.seed);
  Module embed("Embedding");
  parameter(embed, "weight", draws.uniform({options.vocabulary, options.width}, -1, 1));
  embed.define("def forward(self, ids):\n  return torch.embedding(self.weight, ids)\n");
  Module net("TokenNet");
  net.register_module("embed", embed);
  net.register_module("mix", linear_module("Mix", draws, options.width, options.width));
  net.register_module("fc", linear_module("TokenClassifier", draws, options.width, options.classes));
  net.define("def forward(self, ids):\n"
             "  x = torch.tanh(self.mix.forward(self.embed.forward(ids)))\n"
             "  return self.fc.forward(torch.mean(x, [1]))\n");
  return net;
}

/// A model whose forward is this text, over a weight {n, n} called `weight`.
inline Module from_source(const std::string &source, std::int64_t n = 4, std::uint64_t seed = 1) {
  Draws draws(seed);
  Module m("Custom");
  parameter(m, "weight", draws.weight({n, n}, n));
  training_flag(m);
  m.define(source);
  return m;
}

/// Saves `module` in evaluation mode, unless `training`. Returns the path.
inline std::string save(Module module, const std::string &path, bool training = false) {
  module.train(training);
  module.save(path);
  return path;
}

} // namespace tl::test
