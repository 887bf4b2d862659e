#include "calibrate/measure/verify.hpp"

#include <algorithm>

#include "sim/report/table.hpp"

std::vector<Verdict> verify_plan(const CalibrationPlan& plan, MeasuringBackEnd& back_end) {
  std::vector<const CalibrationPoint*> cheapest;
  for (const auto& p : plan.points) {
    const auto same =
        std::find_if(cheapest.begin(), cheapest.end(), [&](const CalibrationPoint* q) {
          return q->kernel_class == p.kernel_class && q->source == p.source && q->words == p.words;
        });
    if (same == cheapest.end())
      cheapest.push_back(&p);
    else if (p.seconds < (*same)->seconds)
      *same = &p;
  }
  std::vector<Verdict> out;
  for (const auto* p : cheapest) {
    const auto check = back_end.prepare(*p);
    std::string words;
    for (const auto& [id, value] : p->words) words += (words.empty() ? "" : " ") + value;
    out.push_back({p->kernel_class, p->source, words, check.state, check.reason});
  }
  return out;
}

std::string render_verdicts(const std::vector<Verdict>& verdicts) {
  Table table({"kernel class", "kernel", "of", "self-check", ""});
  table.left(1).left(2).left(3).left(4);
  for (const auto& v : verdicts)
    table.row({v.kernel_class, v.source, v.words, std::string(name(v.state)), v.reason});
  return table.text();
}
