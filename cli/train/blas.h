#pragma once

#include <string>

namespace strata {

// Whether the file `library` is the reference BLAS, which no one made fast: libblas.so in a folder
// that bears no other implementation's name, as Debian and others lay them out.
bool IsReferenceBlas(const std::string& library);

}  // namespace strata
