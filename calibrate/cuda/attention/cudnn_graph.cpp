// cuDNN's back end API in C: descriptors, a graph of operations, plans. The C++ frontend would hide
// this, but is neither in the toolkit nor in a distribution.

#include "calibrate/cuda/attention/cudnn_graph.hpp"

#include <utility>

#include "calibrate/cuda/harness/versions.hpp"

namespace {

const Registered<LibraryVersion> version("cudnn", [] { return std::to_string(cudnnGetVersion()); });

std::string last_words() {
  char text[1024] = {};
  cudnnGetLastErrorString(text, sizeof text);
  return text;
}

void must_dnn(cudnnStatus_t code, const char* what) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  std::string text = std::string(what) + ": " + cudnnGetErrorString(code);
  if (const auto words = last_words(); !words.empty()) text += " (" + words + ")";
  // CUDNN_STATUS_NOT_SUPPORTED and its finer kinds, 3000 to 3999
  if (code / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000) throw Unsupported(text);
  throw GpuError(text);
}

}  // namespace

CudnnDescriptor::CudnnDescriptor(cudnnBackendDescriptorType_t type) {
  must_dnn(cudnnBackendCreateDescriptor(type, &raw_), "making a cuDNN descriptor");
}
CudnnDescriptor::~CudnnDescriptor() {
  if (raw_) cudnnBackendDestroyDescriptor(raw_);
}
CudnnDescriptor::CudnnDescriptor(CudnnDescriptor&& other) noexcept
    : raw_(std::exchange(other.raw_, nullptr)) {}
CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(raw_, other.raw_);
  return *this;
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          std::int64_t count, const void* values) {
  must_dnn(cudnnBackendSetAttribute(raw_, name, type, count, values), "describing attention");
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name,
                          const std::vector<std::int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.raw_);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
void CudnnDescriptor::set(cudnnBackendAttributeName_t name, bool value) {
  set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}
void CudnnDescriptor::finish() { must_dnn(cudnnBackendFinalize(raw_), "describing attention"); }

namespace {

CudnnDescriptor make_tensor(Tensor id, cudnnDataType_t type, const std::vector<std::int64_t>& dims,
                            const std::vector<std::int64_t>& strides, bool is_inner,
                            bool by_value) {
  CudnnDescriptor out(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  out.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  out.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  out.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  out.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  out.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  out.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_inner);
  out.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, by_value);
  out.finish();
  return out;
}

std::vector<std::int64_t> dense(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

}  // namespace

Tensor CudnnGraph::tensor(cudnnDataType_t type, const std::vector<std::int64_t>& dims,
                          const std::vector<std::int64_t>& strides) {
  const auto id = static_cast<Tensor>(tensors_.size());
  tensors_.push_back(make_tensor(id, type, dims, strides, false, false));
  dims_.push_back(dims);
  return id;
}
Tensor CudnnGraph::inner(cudnnDataType_t type, const std::vector<std::int64_t>& dims) {
  const auto id = static_cast<Tensor>(tensors_.size());
  tensors_.push_back(make_tensor(id, type, dims, dense(dims), true, false));
  dims_.push_back(dims);
  return id;
}
Tensor CudnnGraph::scalar() {
  const auto id = static_cast<Tensor>(tensors_.size());
  tensors_.push_back(make_tensor(id, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, false, true));
  dims_.push_back({1, 1, 1, 1});
  return id;
}

void CudnnGraph::matmul(Tensor a, Tensor b, Tensor out) {
  CudnnDescriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  how.finish();
  CudnnDescriptor op(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, tensors_[static_cast<std::size_t>(a)]);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, tensors_[static_cast<std::size_t>(b)]);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, tensors_[static_cast<std::size_t>(out)]);
  op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
  op.finish();
  parts_.push_back(std::move(how));
  operations_.push_back(std::move(op));
}

void CudnnGraph::pointwise(cudnnPointwiseMode_t mode, Tensor a, Tensor b, Tensor mask, Tensor out) {
  CudnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  how.finish();
  CudnnDescriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors_[static_cast<std::size_t>(a)]);
  if (b >= 0) op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, tensors_[static_cast<std::size_t>(b)]);
  if (mask >= 0)
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, tensors_[static_cast<std::size_t>(mask)]);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[static_cast<std::size_t>(out)]);
  op.finish();
  parts_.push_back(std::move(how));
  operations_.push_back(std::move(op));
}

void CudnnGraph::index(Tensor like, std::int64_t axis, Tensor out) {
  const auto mode = CUDNN_POINTWISE_GEN_INDEX;
  CudnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_INT32);
  how.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  how.finish();
  CudnnDescriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, tensors_[static_cast<std::size_t>(like)]);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, tensors_[static_cast<std::size_t>(out)]);
  op.finish();
  parts_.push_back(std::move(how));
  operations_.push_back(std::move(op));
}

void CudnnGraph::reduce(cudnnReduceTensorOp_t op_kind, Tensor in, Tensor out) {
  CudnnDescriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op_kind);
  how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  how.finish();
  CudnnDescriptor op(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, tensors_[static_cast<std::size_t>(in)]);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, tensors_[static_cast<std::size_t>(out)]);
  op.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
  op.finish();
  parts_.push_back(std::move(how));
  operations_.push_back(std::move(op));
}

void CudnnGraph::attention(const Attention& a) {
  CudnnDescriptor op(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  const auto put = [&](cudnnBackendAttributeName_t name, Tensor t) {
    if (t >= 0) op.set(name, tensors_[static_cast<std::size_t>(t)]);
  };
  put(CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, a.q);
  put(CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, a.k);
  put(CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, a.v);
  put(CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, a.out);
  put(CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, a.scale);
  put(CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC, a.pages_k);
  put(CUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC, a.pages_v);
  put(CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC, a.length_q);
  put(CUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC, a.length_kv);
  op.finish();
  operations_.push_back(std::move(op));
}

namespace {

CudnnDescriptor operation_graph(const std::vector<CudnnDescriptor>& operations,
                                cudnnHandle_t handle) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& op : operations) raw.push_back(op.get());
  CudnnDescriptor out(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle) out.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  out.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
          static_cast<std::int64_t>(raw.size()), raw.data());
  out.finish();
  return out;
}

// What the heuristics offer, best first; `device` when there is no GPU to ask.
std::vector<CudnnDescriptor> configurations(const CudnnDescriptor& graph,
                                            const CudnnDescriptor* device) {
  constexpr std::int64_t most = 16;
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  const auto mode = CUDNN_HEUR_MODE_A;
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (device) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *device);
  heuristics.finish();
  std::vector<CudnnDescriptor> out;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < most; ++i) {
    out.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(out.back().get());
  }
  std::int64_t found = 0;
  must_dnn(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &found, raw.data()),
           "asking for engines");
  while (static_cast<std::int64_t>(out.size()) > found) out.pop_back();
  return out;
}

}  // namespace

CudnnGraph::Plan CudnnGraph::plan(cudnnHandle_t handle) const {
  const auto graph = operation_graph(operations_, handle);
  std::string why = "no engine of cuDNN takes this graph";
  for (const auto& configuration : configurations(graph, nullptr)) {
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) {
      why = "no engine of cuDNN takes this graph: " + last_words();
      continue;
    }
    std::int64_t bytes = 0, count = 0;
    must_dnn(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                      CUDNN_TYPE_INT64, 1, &count, &bytes),
             "asking for the workspace");
    return {std::move(plan), bytes};
  }
  throw Unsupported(why);
}

CudnnGraph::Support CudnnGraph::support(const std::string& json, bool compile) const {
  CudnnDescriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             static_cast<std::int64_t>(json.size() + 1), json.c_str());
  device.finish();
  Support out;
  try {
    const auto graph = operation_graph(operations_, nullptr);
    const auto all = configurations(graph, &device);
    out.configurations = all.size();
    if (all.empty() || !compile) return out;
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, all.front());
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
    const auto code = cudnnBackendFinalize(plan.get());
    out.reason = std::string(cudnnGetErrorString(code)) + " " + last_words();
    // The code is compiled; only loading it needs the driver, which here is the toolkit's stub.
    out.compiles =
        code == CUDNN_STATUS_SUCCESS || (code == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER &&
                                         out.reason.find("cuLibraryLoadData") != std::string::npos);
  } catch (const std::exception& e) {
    out.reason = e.what();
  }
  return out;
}

std::string device_json(int capability) {
  struct Card {
    int version, sms;
    long long memory, shared, l2;
    const char* name;
  };
  // NVIDIA's data sheets; of the shared memory a block may have all but 1 KiB
  const Card card = capability >= 120
                        ? Card{1200, 188, 102641958912, 101376, 134217728, "RTX PRO 6000"}
                    : capability >= 100 ? Card{1000, 148, 191991119872, 232448, 132644864, "B200"}
                                        : Card{900, 132, 150754820096, 232448, 62914560, "H200"};
  const auto number = [](const char* key, long long value) {
    return "\"" + std::string(key) + "\":" + std::to_string(value) + ",";
  };
  return "{" + number("deviceVer", card.version) + number("driverVer", 13000) +
         number("cudaDeviceId", 0) + number("totalGlobalMem", card.memory) +
         number("regsPerBlock", 65536) + number("multiProcessorCount", card.sms) +
         number("warpSize", 32) + number("maxSharedMemoryPerBlock", 49152) +
         number("maxSharedMemoryPerBlockOptin", card.shared) +
         number("reservedSharedMemoryPerBlock", 1024) + number("maxRegistersPerSM", 65536) +
         number("maxCtasPerSM", capability >= 120 ? 24 : 32) + number("maxThreadsPerBlock", 1024) +
         number("maxThreadsPerSM", capability >= 120 ? 1536 : 2048) + number("pciDeviceId", 0) +
         number("isTccDriver", 0) + number("supportCoopLaunch", 1) +
         number("smClockRateKHz", 2000000) + number("memClockRateKHz", 10000000) +
         number("l2CacheSize", card.l2) + "\"deviceName\":\"" + card.name +
         "\",\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]}";
}
