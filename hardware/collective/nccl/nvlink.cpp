// NCCL over NVLink: the fastest of three laws, one for each protocol. No tuner is imitated, because
// NCCL's choice is close to the best there.
//
//   LL      b  + k h + k s min(1, S / 16 KiB) + 2 k S / (n B_LL)
//   LL128   bM + k hM + k S / (n B_M)
//   Simple  bL + k hL + (k + theta) S / (n B_L)          (NVLS included: an effective number)
//
// Fitted per card over three collectives at 2, 4 and 8 GPUs (aiconfigurator @095f58a5, nccl-tests
// 2.29.2 tables, read 2026-08): median 3.4 / 4.4 / 3.2 %, rms 7.5 / 8.2 / 8.9 % on H100, H200,
// B200. Other cards take the law of the nearest generation with its rates scaled by the link,
// assumed. Broadcast: as in the ring law, not fitted.

#include <algorithm>
#include <array>
#include <string_view>

#include "hardware/collective/nccl/nccl.hpp"

namespace {

struct Law {
  std::string_view gpu;
  double compute_capability, link_gbps;  // one way, all links of a card
  double b, h, s, rate_ll;
  double b_mid, h_mid, rate_mid;
  double b_large, h_large, rate_large, fill;
};

// us and GB/s
constexpr std::array<Law, 3> laws = {{
    {"h100", 9.0, 450, 4.79, .75, .30, 226, 7.2, .63, 166, 20.8, .71, 366, .51},
    {"h200", 9.0, 450, 4.66, .82, .25, 244, 7.5, .67, 172, 17.9, .99, 370, .51},
    {"b200", 10.0, 900, 7.80, 1.18, .38, 392, 9.3, 1.17, 263, 11.2, 6.73, 782, .83},
}};

}  // namespace

CollectivePrice nccl_nvlink(Collective op, Bytes size, const CollectiveBox& box) {
  const Law* law = std::find_if(laws.begin(), laws.end(),
                                [&](const Law& l) { return l.gpu == box.interconnect().gpu; });
  const bool own = law != laws.end();
  if (!own) law = &laws[box.compute_capability() >= 10 ? 2 : 0];
  // A graph may state other links than the card the law was fitted on.
  const double scale = box.port().count() / 1e9 / law->link_gbps;
  const double n = box.ranks();
  const double k = (op == Collective::all_reduce ? 2 : 1) * (n - 1);
  const double moved = op == Collective::broadcast ? n : k;
  const double chunk_kb = size.real() / n / 1e3;

  const double iteration = std::min(1.0, size.real() / 16384);
  const double ll =
      law->b + k * law->h + k * law->s * iteration + 2 * moved * chunk_kb / (law->rate_ll * scale);
  const double mid = law->b_mid + k * law->h_mid + moved * chunk_kb / (law->rate_mid * scale);
  const double large =
      law->b_large + k * law->h_large + (moved + law->fill) * chunk_kb / (law->rate_large * scale);

  CollectivePrice out;
  out.algorithm = "NVLink";
  out.transport = Transport::nvlink;
  const double us = std::min({ll, mid, large});
  out.protocol = us == ll ? Protocol::ll : us == mid ? Protocol::ll128 : Protocol::simple;
  const double latency = out.protocol == Protocol::ll      ? law->b + k * (law->h + law->s)
                         : out.protocol == Protocol::ll128 ? law->b_mid + k * law->h_mid
                                                           : law->b_large + k * law->h_large;
  out.limit = latency >= us / 2 ? "hop latency" : "links";
  const bool fitted = own && op != Collective::broadcast && scale > 0.999 && scale < 1.001;
  out.provenance = fitted ? Provenance::fitted : Provenance::assumed;
  out.spread = fitted ? 1.15 : 1.4;
  out.time = Duration::from_us(us);
  return out;
}
