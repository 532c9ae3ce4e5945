#include "cli/train/blas.h"

#include "gtest/gtest.h"

namespace strata {
namespace {

TEST(BlasTest, TheReferenceIsKnownByItsFile) {
  for (const char* reference :
       {"/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0",
        "/usr/lib/aarch64-linux-gnu/blas/libblas.so.3", "/usr/lib64/libblas.so.3.10"}) {
    EXPECT_TRUE(IsReferenceBlas(reference)) << reference;
  }
  for (const char* other :
       {"/usr/lib/x86_64-linux-gnu/openblas-serial/libblas.so.3",
        "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblasp-r0.3.21.so",
        "/usr/lib/x86_64-linux-gnu/blis-openmp/libblas.so.3",
        "/usr/lib/x86_64-linux-gnu/atlas/libblas.so.3.10.3", "/opt/intel/mkl/lib/libmkl_rt.so.2",
        "/opt/torch/lib/libtorch_cpu.so", "unknown", ""}) {
    EXPECT_FALSE(IsReferenceBlas(other)) << other;
  }
}

}  // namespace
}  // namespace strata
