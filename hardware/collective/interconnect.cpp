#include "hardware/collective/interconnect.hpp"

TransportSpec untimed_transport(bool staged) {
  TransportSpec out;
  out.hop_ll.value = Duration::from_us(staged ? 1.456 : 1.02);
  out.hop_ll.basis = Provenance::fitted;
  out.hop_simple = Duration::from_us(staged ? 3.18 : 2.18);
  return out;
}

TransportSpec timed_transport(bool staged, const Constant<Duration>& hop_ll) {
  TransportSpec out = untimed_transport(staged);
  out.hop_simple = out.hop_simple + hop_ll.value - out.hop_ll.value;
  out.hop_ll = hop_ll;
  out.timed = true;
  return out;
}
