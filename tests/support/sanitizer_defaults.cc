// What the sanitizers are told, compiled into every test program, so that one started by hand
// behaves as it does under ctest. The environment (ASAN_OPTIONS ...) still overrides it.

extern "C" {

const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1";
}

const char* __ubsan_default_options() { return "print_stacktrace=1"; }

// libfabric's "net" provider of 1.17 loses a copy of the info with every endpoint, and with every
// connection an entry of a list of its own; the latter's functions have no names to suppress by.
const char* __lsan_default_suppressions() { return "leak:fi_dupinfo\nleak:libfabric.so\n"; }

// Libraries that are not instrumented do their own locking unseen; only what our code touches is
// judged.
const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1";
}

}  // extern "C"
