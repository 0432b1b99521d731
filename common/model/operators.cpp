#include "model/operators.h"

#include <set>

namespace tl::model {

namespace {
using Names = std::set<std::string>;

bool starts_with(const std::string &text, const std::string &start) {
  return text.compare(0, start.size(), start) == 0;
}
} // namespace

bool reads_metadata_only(const std::string &op) {
  static const Names names = {
      "aten::size",
      "aten::dim",
      "aten::numel",
      "aten::len",
      "aten::stride",
      "prim::dtype",
      "prim::device",
      "prim::layout",
      "prim::shape",
      "prim::is_cuda",
      "prim::is_sparse",
      "prim::is_mkldnn",
      "prim::is_quantized",
      "prim::is_meta",
      "prim::requires_grad",
      "aten::is_contiguous",
      "aten::is_complex",
      "prim::isinstance",
      "aten::is_floating_point",
      "prim::is_nested",
      "aten::__is__",
      "aten::__isnot__",
      "prim::type",
      "aten::sym_size",
      "aten::get_device",
      "aten::zeros_like",
      "aten::ones_like",
      "aten::full_like",
      "aten::empty_like",
      "aten::new_zeros",
      "aten::new_ones",
      "aten::new_full",
      "prim::is_mps",
      "prim::is_ort",
      "prim::is_xpu",
      "prim::is_vulkan",
  };
  return names.count(op) > 0;
}

bool is_random(const std::string &op) {
  static const Names names = {
      "aten::bernoulli",      "aten::bernoulli_",   "aten::rand",
      "aten::rand_like",      "aten::randn",        "aten::randn_like",
      "aten::randint",        "aten::randint_like", "aten::randperm",
      "aten::normal",         "aten::normal_",      "aten::uniform_",
      "aten::multinomial",    "aten::poisson",      "aten::binomial",
      "aten::exponential_",   "aten::random_",      "aten::cauchy_",
      "aten::geometric_",     "aten::log_normal_",  "aten::rrelu_with_noise",
      "aten::native_dropout", "aten::empty",        "aten::empty_strided",
  };
  return names.count(op) > 0;
}

bool is_dropout(const std::string &op) {
  static const Names names = {
      "aten::dropout",
      "aten::dropout_",
      "aten::feature_dropout",
      "aten::feature_dropout_",
      "aten::alpha_dropout",
      "aten::alpha_dropout_",
      "aten::feature_alpha_dropout",
      "aten::feature_alpha_dropout_",
  };
  return names.count(op) > 0;
}

bool touches_files(const std::string &op) {
  static const Names names = {"aten::save", "aten::from_file", "aten::load", "prim::PythonOp", "aten::wait"};
  return names.count(op) > 0 || starts_with(op, "rpc::") || starts_with(op, "prim::rpc");
}

bool lacks_gradient(const std::string &op) {
  static const Names names = {"aten::_native_multi_head_attention", "aten::_transformer_encoder_layer_fwd",
                              "aten::_transform_bias_rescale_qkv", "aten::_triton_multi_head_attention"};
  return names.count(op) > 0;
}

std::string functional_name(const std::string &op) {
  if (!starts_with(op, "aten::") || op.back() != '_' || op[op.size() - 2] == '_') return "";
  return op.substr(0, op.size() - 1);
}

} // namespace tl::model
