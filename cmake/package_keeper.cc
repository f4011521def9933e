// SPDX-License-Identifier: Apache-2.0
// Compiled into each program that links errand::engine: where the package that it was built against has its keeper.
// Weak, since a program may be made of several parts that link the engine.
extern "C" [[gnu::weak]] const char* errand_package_keeper();
extern "C" const char* errand_package_keeper() { return ERRAND_PACKAGE_KEEPER; }
