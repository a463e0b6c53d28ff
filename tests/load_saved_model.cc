// Loads a SavedModel as TensorFlow Serving does and asks for classes of nodes.
//   load_saved_model FOLDER ID ID ...
// Prints the probabilities, row by row; then, as "name: code", what becomes of
// an empty request, of an unknown id, and of ids of the wrong rank.

#include <iostream>
#include <string>
#include <vector>

#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/public/session_options.h"

using tensorflow::Tensor;
using tensorflow::TensorShape;

int main(int argc, char** argv) {
  tensorflow::SavedModelBundle bundle;
  auto status = tensorflow::LoadSavedModel(
      tensorflow::SessionOptions(), tensorflow::RunOptions(), argv[1],
      {"serve"}, &bundle);
  if (!status.ok()) {
    std::cerr << status.ToString() << "\n";
    return 1;
  }
  const auto& signature =
      bundle.meta_graph_def.signature_def().at("serving_default");
  const std::string input = signature.inputs().at("node_ids").name();
  const std::string output = signature.outputs().at("probabilities").name();
  std::vector<Tensor> answer;
  auto ask = [&](const Tensor& ids) {
    return bundle.session->Run({{input, ids}}, {output}, {}, &answer);
  };

  Tensor ids(tensorflow::DT_INT64, TensorShape({argc - 2}));
  for (int i = 2; i < argc; ++i) ids.vec<int64_t>()(i - 2) = std::stoll(argv[i]);
  status = ask(ids);
  if (!status.ok()) {
    std::cerr << status.ToString() << "\n";
    return 1;
  }
  auto rows = answer[0].matrix<float>();
  std::cout.precision(9);
  for (int i = 0; i < rows.dimension(0); ++i) {
    for (int j = 0; j < rows.dimension(1); ++j) std::cout << rows(i, j) << " ";
    std::cout << "\n";
  }
  auto tell = [&](const char* name, const Tensor& tensor) {
    const auto result = ask(tensor);
    std::cout << name << ": " << static_cast<int>(result.code());
    std::cout << " " << (result.ok() ? answer[0].dim_size(0) : -1) << "\n";
  };
  tell("empty", Tensor(tensorflow::DT_INT64, TensorShape({0})));
  Tensor unknown(tensorflow::DT_INT64, TensorShape({1}));
  unknown.vec<int64_t>()(0) = -1;
  tell("unknown", unknown);
  Tensor square(tensorflow::DT_INT64, TensorShape({2, 2}));
  square.matrix<int64_t>().setZero();
  tell("rank", square);
  return 0;
}
