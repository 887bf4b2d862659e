// The shipped tables of fitted kernel times against the measured rows that are here: at a row the
// table errs by what it leaves out and rounds, which is a few per cent.

#include <cstdlib>

#include <catch2/catch.hpp>

#include "calibrate/import/kernel_rows.hpp"
#include "sim/scenario/kernel_files.hpp"
#include "tests/support/csv.hpp"
#include "tests/support/paths.hpp"

namespace {

void check_table(const std::string& name) {
  const auto file = shared_file("data/kernels/rtx_pro_6000_server/" + name);
  if (!file) return;
  // the data of this source tree, wherever the test program lies
  setenv("CEILING_DATA", repo_root().c_str(), 1);
  const auto gpu = load_gpu_file("rtx_pro_6000_server");
  if (!gpu) FAIL(gpu.error().render());
  const auto import = import_aiconfigurator(*file);
  if (!import) FAIL(import.error().render());
  REQUIRE_FALSE(import->sets.empty());
  const auto tables = load_kernel_tables(*gpu, gpu->id, {import->sets[0].kernel_class});
  if (!tables) FAIL(tables.error().render());
  Errors errors;
  for (const auto& rows : import->sets) {
    const auto choice = tables->find(rows.kernel_class, rows.engine, rows.version, rows.words);
    REQUIRE(choice.set);
    CHECK(choice.same_version);
    for (const auto& row : rows.rows) errors.add(choice.set->predict(row.x.data()).us, row.time_us);
  }
  INFO(name << ": " << errors.absolute.size() << " rows");
  CHECK(errors.absolute.size() > 300);
  CHECK(errors.median() < 0.03);
  CHECK(errors.quantile(0.9) < 0.15);
}

}  // namespace

TEST_CASE("the shipped GEMM table gives its rows within 3 % in the median") {
  check_table("gemm__sglang_0.5.14.csv.gz");
}

TEST_CASE("the shipped MLA decode table gives its rows within 3 % in the median") {
  check_table("generation_mla__sglang_0.5.14.csv");
}

TEST_CASE("the shipped table of collectives gives its rows within 3 % in the median") {
  check_table("nccl__nccl_2.29.2.csv");
}
