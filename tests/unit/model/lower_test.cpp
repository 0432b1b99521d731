// TorchScript -> graph: names, canonical forms, and everything that must be refused.
#include "cli/error.h"
#include "graph/cut.h"
#include "graph/scheme.h"
#include "model/model.h"
#include "support/files.h"
#include "support/models.h"

#include <doctest/doctest.h>

#include <fstream>

using namespace tl;
using namespace tl::model;
using test::from_source;

namespace {

const InputSpec kVector{DType::f32, {4}};

Model load(const torch::jit::Module &module, const InputSpec &input, bool training = false) {
  const test::TempFolder folder;
  return load_model(test::save(module, folder.path("model.pt"), training), input, Digest());
}

/// The message with which the model is refused, which must be one line.
std::string refusal(const torch::jit::Module &module, const InputSpec &input = kVector) {
  try {
    load(module, input);
  } catch (const FormatError &error) {
    const std::string message = error.what();
    CHECK(message.find('\n') == std::string::npos);
    return message;
  }
  return "accepted";
}

bool has(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

std::string refused_file(const std::string &contents) {
  const test::TempFolder folder;
  std::ofstream(folder.path("model.pt"), std::ios::binary) << contents;
  try {
    load_model(folder.path("model.pt"), kVector, Digest());
  } catch (const FormatError &error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "accepted";
}

Digest output_hash(const std::string &source) {
  const Model model = load(from_source(source), kVector);
  return model.graph.values[static_cast<std::size_t>(model.graph.output)].hash;
}

} // namespace

TEST_CASE("values are named by the modules that compute them") {
  const Model model = load(test::conv_net(), test::kPicture);
  for (const char *name : {"input", "conv1", "bn1", "block", "down", "fc"}) {
    CAPTURE(name);
    CHECK_NOTHROW(model.graph.find(name));
  }
  CHECK(model.graph.values[static_cast<std::size_t>(model.graph.find("block"))].shape == Shape{8, 8, 8});
  CHECK(model.graph.values[static_cast<std::size_t>(graph::classifier_input(model.graph))].shape ==
        Shape{16});
  std::set<std::string> parameters;
  for (const auto &parameter : model.graph.parameters) parameters.insert(parameter.name);
  CHECK(parameters.count("block.conv2.weight") == 1);
  CHECK(parameters.count("fc.bias") == 1);
}

TEST_CASE("one function has one hash, however it is written") {
  const Digest plain = output_hash("def forward(self, x):\n  return torch.relu(torch.mm(x, self.weight))\n");
  const char *const same[] = {
      "def forward(self, x):\n  return torch.mm(x, self.weight).relu_()\n",
      "def forward(self, x):\n  y = [torch.mm(x, self.weight)]\n  y.append(torch.relu(y[0]))\n  return "
      "y[-1]\n",
      "def forward(self, x):\n  if x.dim() == 2:\n    x = torch.mm(x, self.weight)\n  return torch.relu(x)\n",
      "def forward(self, x):\n  for i in range(1):\n    x = torch.mm(x, self.weight)\n  return "
      "torch.relu(x)\n",
      "def forward(self, x):\n  unused = torch.sin(x)\n  return torch.relu(torch.dropout(torch.mm(x, "
      "self.weight), 0.5, "
      "self.training))\n",
      "def forward(self, x):\n  y = (torch.mm(x.to(6), self.weight), 1)\n  return torch.relu(y[0])\n",
  };
  for (const char *source : same) {
    CAPTURE(source);
    CHECK(output_hash(source) == plain);
  }
  CHECK(output_hash("def forward(self, x):\n  return torch.relu(torch.mm(self.weight, x.t()).t())\n") !=
        plain);
  CHECK(output_hash("def forward(self, x):\n  return torch.sigmoid(torch.mm(x, self.weight))\n") != plain);
}

TEST_CASE("a changed weight or preprocessing is another hash from there on") {
  const test::TempFolder folder;
  const std::string a = test::save(test::conv_net({1}), folder.path("a.pt"));
  test::ConvNet changed{1};
  torch::jit::Module other = test::conv_net(changed);
  other.attr("down").toModule().attr("weight").toTensor().data().mul_(1.5);
  const std::string b = test::save(other, folder.path("b.pt"));
  const Model first = load_model(a, test::kPicture, Digest()),
              second = load_model(b, test::kPicture, Digest()),
              third = load_model(a, test::kPicture, hash_text("another crop"));
  const auto hash = [](const Model &m, const char *name) {
    return m.graph.values[static_cast<std::size_t>(m.graph.find(name))].hash;
  };
  CHECK(hash(first, "block") == hash(second, "block"));
  CHECK(hash(first, "down") != hash(second, "down"));
  CHECK(hash(first, "fc") != hash(second, "fc"));
  CHECK(hash(first, "conv1") != hash(third, "conv1"));
}

TEST_CASE("tied parameters are one parameter") {
  torch::jit::Module m("Tied");
  test::Draws draws(1);
  const at::Tensor weight = draws.weight({4, 4}, 4);
  m.register_parameter("encode", weight, false);
  m.register_parameter("decode", weight, false);
  m.define("def forward(self, x):\n  return torch.mm(torch.mm(x, self.encode), self.decode)\n");
  const Model model = load(m, kVector);
  REQUIRE(model.graph.parameters.size() == 1);
  CHECK(model.graph.parameters[0].tied.size() == 1);
}

TEST_CASE("sizes stay symbolic and batch-dependent reshapes are exact") {
  const Model model =
      load(from_source("def forward(self, x):\n  return torch.mm(x, self.weight).view(x.size(0), 2, "
                       "2).transpose(1, 2).reshape(x.size(0), -1)\n"),
           kVector);
  CHECK(model.graph.values[static_cast<std::size_t>(model.graph.output)].batched);
}

TEST_CASE("token models lower from integers") {
  const Model model = load(test::token_net(), {DType::i64, {6}});
  CHECK(model.input().dtype == DType::i64);
  CHECK(model.graph.values[static_cast<std::size_t>(model.graph.find("mix"))].shape == Shape{6, 8});
}

TEST_CASE("models that cannot be split are refused with the reason") {
  const std::pair<const char *, const char *> cases[] = {
      {"def forward(self, x):\n  return torch.dropout(x, 0.5, True)\n", "training mode"},
      {"def forward(self, x):\n  return x + torch.rand_like(x)\n", "random"},
      {"def forward(self, x):\n  return torch.bernoulli(torch.sigmoid(x))\n", "random"},
      {"def forward(self, x):\n  return x - x.mean(0)\n", "other records"},
      {"def forward(self, x):\n  return torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, "
       "False)\n",
       "training mode"},
      {"def forward(self, x):\n  return torch.softmax(x, 0)\n", "other records"},
      {"def forward(self, x):\n  return torch.flip(x, [0])\n", "other records"},
      {"def forward(self, x):\n  return torch.mm(x, self.weight).view(2, -1)\n", "batch"},
      {"def forward(self, x):\n  return torch.mm(x, self.weight).t()\n", "batch"},
      {"def forward(self, x):\n  return x.sum()\n", "batch"},
      {"def forward(self, x):\n  return torch.mm(x, x.t())\n", "batch"},
      {"def forward(self, x):\n  if bool(x.sum() > 0):\n    x = x * 2\n  return x\n", "data"},
      {"def forward(self, x):\n  return x * float(x.max())\n", "data"},
      {"def forward(self, x):\n  if x.size(0) > 2:\n    x = x * 2\n  return x\n", "batch size"},
      {"def forward(self, x):\n  for i in range(x.size(0)):\n    x = x * 2\n  return x\n", "batch size"},
      {"def forward(self, x):\n  y = x * 2\n  z = y.view(2, -1)\n  z.relu_()\n  return y\n", "view"},
      {"def forward(self, x):\n  y = x * 2\n  y[:, 0].zero_()\n  return y\n", "cannot be"},
      {"def forward(self, x):\n  self.weight.add_(1.0)\n  return torch.mm(x, self.weight)\n",
       "own parameters"},
      {"def forward(self, x):\n  torch.save(x, '/tmp/stolen')\n  return x\n", "files"},
      {"def forward(self, x):\n  raise ValueError('no')\n  return x\n", "refuses its input"},
      {"def forward(self, x, y):\n  return x + y\n", "arguments"},
      {"def forward(self, x):\n  return x, x * 2\n", "one tensor"},
      {"def forward(self, x):\n  return {'out': x * 2}\n", "not supported"},
      {"def forward(self, x):\n  return torch.mm(x, self.weight[:, :3].t())\n", "fails for batches"},
      {"def forward(self, x):\n  return self.weight\n", "does not depend on the input"},
  };
  for (const auto &[source, reason] : cases) {
    CAPTURE(source);
    std::string message;
    try {
      message = refusal(from_source(source));
    } catch (const torch::jit::ErrorReport &) { // an operator that TorchScript text cannot name
      continue;
    }
    CAPTURE(message);
    CHECK(has(message, reason));
  }
}

TEST_CASE("a module saved in training mode is put into evaluation mode") {
  test::Draws draws(3);
  torch::jit::Module m = test::batch_norm_module("Norm", draws, 3);
  CHECK_NOTHROW(load(m, test::kPicture, /*training=*/true));
}

TEST_CASE("files that are no TorchScript are refused by what they are") {
  CHECK(has(refused_file(""), "empty"));
  CHECK(has(refused_file("hello, this is text"), "not a TorchScript file"));
  CHECK(has(refused_file(std::string("\x80\x02pickle", 8)), "pickle"));
  const test::TempFolder folder;
  const std::string path = test::save(test::conv_net(), folder.path("model.pt"));
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const double share : {0.01, 0.3, 0.6, 0.9, 0.999}) {
    CAPTURE(share);
    const std::string message =
        refused_file(whole.substr(0, static_cast<std::size_t>(share * static_cast<double>(whole.size()))));
    CAPTURE(message);
    CHECK(has(message, "damaged"));
  }
  CHECK_THROWS_AS(load_model(folder.path("missing.pt"), kVector, Digest()), Error);
}

TEST_CASE("the wrong input shape is one line that says the shape") {
  const std::string message = refusal(test::conv_net(), {DType::f32, {1, 8, 8}});
  CHECK(has(message, "1x8x8"));
}
