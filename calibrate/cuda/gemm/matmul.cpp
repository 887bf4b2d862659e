// cuBLASLt for NVFP4 (blocks of 16 with UE4M3 scales), FP8 (one scale, or 128 x 128 and 1 x 128
// blocks) and BF16. cuBLAS is column-major: weights are the transposed A, activations B.
// Leaves out: FP4 outputs, fused activations, MXFP8.

#include "calibrate/cuda/gemm/matmul.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "calibrate/cuda/harness/basics.hpp"
#include "calibrate/cuda/harness/versions.hpp"
#include "calibrate/reference/nvfp4.hpp"

namespace {

const Registered<LibraryVersion> version("cublaslt",
                                         [] { return std::to_string(cublasLtGetVersion()); });

constexpr std::size_t workspace_bytes = 64u << 20;  // what servers give it on Hopper and later
constexpr int heuristics_wanted = 8;

void must_lt(cublasStatus_t code, const char* what) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = std::string(what) + ": " + cublasLtGetStatusString(code);
  if (code == CUBLAS_STATUS_NOT_SUPPORTED) throw Unsupported(text);
  throw GpuError(text);
}

// One handle and one workspace for all products of this process; never freed, as the driver may be
// gone before our statics are.
cublasLtHandle_t handle() {
  static cublasLtHandle_t one = [] {
    cublasLtHandle_t made = nullptr;
    must_lt(cublasLtCreate(&made), "starting cuBLASLt");
    return made;
  }();
  return one;
}
void* workspace() {
  static auto* one = new DeviceBuffer(workspace_bytes);
  return one->at();
}

std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

struct Format {
  cudaDataType_t type;
  double bytes;  // of an element
  Fill fill;
  bool scaled;
  cublasLtMatmulMatrixScale_t weight_scale, activation_scale;
};
Format format_of(const std::string& dtype) {
  constexpr auto scalar = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  if (dtype == "bfloat16") return {CUDA_R_16BF, 2, Fill::bf16, false, scalar, scalar};
  if (dtype == "fp8") return {CUDA_R_8F_E4M3, 1, Fill::e4m3, true, scalar, scalar};
  if (dtype == "fp8_block")
    return {CUDA_R_8F_E4M3,
            1,
            Fill::e4m3,
            true,
            CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
            CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F};
  if (dtype == "nvfp4")
    return {CUDA_R_4F_E2M1,
            0.5,
            Fill::e2m1,
            true,
            CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3,
            CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3};
  throw Unsupported("cuBLASLt is not asked for " + dtype);
}

std::size_t scale_bytes(cublasLtMatmulMatrixScale_t mode, long long rows, long long k) {
  switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3:
      return static_cast<std::size_t>(reference::swizzled_scale_bytes(rows, (k + 15) / 16));
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
      return static_cast<std::size_t>(rows * ((k + 127) / 128) * 4);
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F:
      // the inner count is padded to 4 (cuBLAS 13.1, 128x128 block scales)
      return static_cast<std::size_t>((rows + 127) / 128 * (((k + 127) / 128 + 3) / 4 * 4) * 4);
    default:
      return 4;
  }
}

}  // namespace

struct Matmul::Parts {
  MatmulShape shape;
  Format format{};
  std::size_t weight_codes = 0, activation_codes = 0, weight_scales = 0, activation_scales = 0;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> found;

  ~Parts() {
    for (auto* layout : {a, b, d})
      if (layout) cublasLtMatrixLayoutDestroy(layout);
    if (operation) cublasLtMatmulDescDestroy(operation);
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    must_lt(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value),
            "describing the product");
  }
  cublasLtMatrixLayout_t layout(cudaDataType_t type, long long rows, long long columns) const {
    cublasLtMatrixLayout_t made = nullptr;
    must_lt(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(columns), rows),
            "describing a matrix");
    const auto count = static_cast<std::int32_t>(shape.batch);
    const std::int64_t stride = rows * columns;
    if (count > 1) {
      cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                       sizeof count);
      cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                       sizeof stride);
    }
    return made;
  }
};

Matmul::Matmul(const MatmulShape& shape) : p_(std::make_unique<Parts>()) {
  Parts& p = *p_;
  p.shape = shape;
  p.format = format_of(shape.dtype);
  const auto codes = [&](long long rows) {
    return rounded(static_cast<std::size_t>(
        std::ceil(static_cast<double>(rows * shape.k * shape.batch) * p.format.bytes)));
  };
  p.weight_codes = codes(shape.n);
  p.activation_codes = codes(shape.m);
  if (p.format.scaled) {
    if (shape.batch > 1) throw Unsupported("batches are asked for in bfloat16 only");
    p.weight_scales = rounded(scale_bytes(p.format.weight_scale, shape.n, shape.k));
    p.activation_scales = rounded(scale_bytes(p.format.activation_scale, shape.m, shape.k));
  }
  must_lt(cublasLtMatmulDescCreate(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "describing the product");
  p.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  p.set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  if (p.format.scaled) {
    p.set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, p.format.weight_scale);
    p.set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, p.format.activation_scale);
    // Any that is aligned: the heuristics ask whether there are scales.
    p.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, workspace());
    p.set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, workspace());
  }
  p.a = p.layout(p.format.type, shape.k, shape.n);
  p.b = p.layout(p.format.type, shape.k, shape.m);
  p.d = p.layout(CUDA_R_16BF, shape.n, shape.m);

  cublasLtMatmulPreference_t preference = nullptr;
  must_lt(cublasLtMatmulPreferenceCreate(&preference), "asking for algorithms");
  std::size_t room = workspace_bytes;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
                                       sizeof room);
  p.found.resize(heuristics_wanted);
  int found = 0;
  const auto code =
      cublasLtMatmulAlgoGetHeuristic(handle(), p.operation, p.a, p.b, p.d, p.d, preference,
                                     heuristics_wanted, p.found.data(), &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (code == CUBLAS_STATUS_NOT_SUPPORTED || (code == CUBLAS_STATUS_SUCCESS && found == 0))
    throw Unsupported("cuBLASLt has no " + shape.dtype + " kernel for this card and shape");
  must_lt(code, "asking for algorithms");
  p.found.resize(static_cast<std::size_t>(found));
}
Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;

std::size_t Matmul::weight_bytes() const { return p_->weight_codes + p_->weight_scales; }
std::size_t Matmul::activation_bytes() const {
  return p_->activation_codes + p_->activation_scales;
}
std::size_t Matmul::output_bytes() const {
  return rounded(static_cast<std::size_t>(p_->shape.n * p_->shape.m * p_->shape.batch * 2));
}

namespace {

void fill_matrix(void* at, const Format& format, cublasLtMatmulMatrixScale_t mode,
                 std::size_t codes, std::size_t scales, std::uint64_t seed, cudaStream_t stream) {
  must(fill_random(at, codes, format.fill, seed, stream), "filling a matrix");
  if (scales == 0) return;
  const auto kind = mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 ? Fill::ue4m3 : Fill::f32;
  must(fill_random(static_cast<unsigned char*>(at) + codes, scales, kind, seed + 1, stream),
       "filling scales");
}

}  // namespace

void Matmul::fill_weights(void* at, std::uint64_t seed, cudaStream_t stream) const {
  fill_matrix(at, p_->format, p_->format.weight_scale, p_->weight_codes, p_->weight_scales, seed,
              stream);
}
void Matmul::fill_activations(void* at, std::uint64_t seed, cudaStream_t stream) const {
  fill_matrix(at, p_->format, p_->format.activation_scale, p_->activation_codes,
              p_->activation_scales, seed, stream);
}

std::size_t Matmul::algorithms() const { return p_->found.size(); }

void Matmul::run(std::size_t algorithm, void* weights, void* activations, void* out,
                 cudaStream_t stream) const {
  if (p_->format.scaled) {
    const void* a = static_cast<unsigned char*>(weights) + p_->weight_codes;
    const void* b = static_cast<unsigned char*>(activations) + p_->activation_codes;
    p_->set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a);
    p_->set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b);
  }
  const float one = 1, none = 0;
  must_lt(cublasLtMatmul(handle(), p_->operation, &one, weights, p_->a, activations, p_->b, &none,
                         out, p_->d, out, p_->d, &p_->found[algorithm].algo, workspace(),
                         workspace_bytes, stream),
          "launching a product");
}

std::size_t Matmul::fastest(void* weights, void* activations, void* out,
                            cudaStream_t stream) const {
  cudaEvent_t begin = nullptr, end = nullptr;
  must(cudaEventCreate(&begin), "making an event");
  must(cudaEventCreate(&end), "making an event");
  std::size_t best = 0;
  float best_ms = INFINITY;
  for (std::size_t i = 0; i < algorithms(); ++i) {
    for (int launch = 0; launch < 6; ++launch) {  // the first warms up
      if (launch == 1) cudaEventRecord(begin, stream);
      run(i, weights, activations, out, stream);
    }
    cudaEventRecord(end, stream);
    must(cudaEventSynchronize(end), "timing an algorithm");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    if (ms < best_ms) best = i, best_ms = ms;
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return best;
}

// ---- the check ----

namespace {

constexpr long long check_n = 256, check_k = 512, check_m = 64;

double from_e4m3(std::uint8_t code) {
  const double size = reference::from_ue4m3(code & 0x7f);
  return code & 0x80 ? -size : size;
}
double from_bf16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value = 0;
  std::memcpy(&value, &wide, sizeof value);
  return static_cast<double>(value);
}

// The values of a filled matrix of `rows` x check_k, scales multiplied in.
std::vector<double> values(const std::vector<std::uint8_t>& bytes, const Format& format,
                           cublasLtMatmulMatrixScale_t mode, std::size_t codes, long long rows) {
  const auto scale = [&](long long row, long long k) -> double {
    if (!format.scaled) return 1;
    const auto* at = bytes.data() + codes;
    if (mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3)
      return reference::from_ue4m3(at[reference::swizzled_scale(row, k / 16, check_k / 16)]);
    const long long blocks = check_k / 128;
    const long long index = mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
                                ? k / 128 * rows + row  // column-major over rows
                            : mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                                ? row / 128 * ((blocks + 3) / 4 * 4) + k / 128
                                : 0;
    float value = 0;
    std::memcpy(&value, at + index * 4, sizeof value);
    return static_cast<double>(value);
  };
  std::vector<double> out(static_cast<std::size_t>(rows * check_k));
  for (long long row = 0; row < rows; ++row)
    for (long long k = 0; k < check_k; ++k) {
      const auto i = static_cast<std::size_t>(row * check_k + k);
      double code = 0;
      if (format.type == CUDA_R_4F_E2M1) {
        code =
            reference::from_e2m1(static_cast<std::uint8_t>(bytes[i / 2] >> (i % 2 ? 4 : 0) & 15));
      } else if (format.type == CUDA_R_8F_E4M3) {
        code = from_e4m3(bytes[i]);
      } else {
        std::uint16_t bits = 0;
        std::memcpy(&bits, bytes.data() + 2 * i, sizeof bits);
        code = from_bf16(bits);
      }
      out[i] = code * scale(row, k);
    }
  return out;
}

std::string compare_small(const std::string& dtype) {
  const Matmul product({dtype, check_n, check_k, check_m, 1});
  const Format format = format_of(dtype);
  DeviceBuffer weights(product.weight_bytes()), activations(product.activation_bytes()),
      out(product.output_bytes());
  product.fill_weights(weights.at(), 1, nullptr);
  product.fill_activations(activations.at(), 2, nullptr);
  product.run(0, weights.at(), activations.at(), out.at(), nullptr);
  must(cudaDeviceSynchronize(), "running the check");
  std::vector<std::uint8_t> w(weights.bytes()), x(activations.bytes()), d(out.bytes());
  weights.download(w.data(), w.size());
  activations.download(x.data(), x.size());
  out.download(d.data(), d.size());
  const auto codes = [&](long long rows) {
    return rounded(static_cast<std::size_t>(static_cast<double>(rows * check_k) * format.bytes));
  };
  const auto a = values(w, format, format.weight_scale, codes(check_n), check_n);
  const auto b = values(x, format, format.activation_scale, codes(check_m), check_m);
  double largest = 0, error = 0;
  for (long long m = 0; m < check_m; ++m)
    for (long long n = 0; n < check_n; ++n) {
      double sum = 0;
      for (long long k = 0; k < check_k; ++k)
        sum += a[static_cast<std::size_t>(n * check_k + k)] *
               b[static_cast<std::size_t>(m * check_k + k)];
      std::uint16_t bits = 0;
      std::memcpy(&bits, d.data() + 2 * (m * check_n + n), sizeof bits);
      largest = std::max(largest, std::abs(sum));
      error = std::max(error, std::abs(from_bf16(bits) - sum));
    }
  if (error <= 1e-2 * largest) return "";
  return "its product differs from the reference by " + std::to_string(error / largest) +
         " of the largest element";
}

}  // namespace

std::string check_matmul(const std::string& dtype) {
  static std::map<std::string, std::string> known;
  const auto it = known.find(dtype);
  return it != known.end() ? it->second : known.emplace(dtype, compare_small(dtype)).first->second;
}
